# SPDX-License-Identifier: Apache-2.0
"""Values as objects: a pickle of protocol 5, and its buffers behind it, each at a multiple of 64 bytes.

    magic, count of buffers, bytes of the pickle      8 bytes each, little endian
    count times: where a buffer begins, its bytes     8 and 8
    the pickle
    the buffers

What is read is checked before it is followed: a head that lies is a ValueError. (The pickle itself is trusted.)"""
from __future__ import annotations

import pickle
import struct
from typing import Any

from ._native import Writer

META = b"nigh.pickle5\x00\x01"
_MAGIC = 0x35656c6b63697067  # "gpickle5"
_ALIGN = 64
_HEAD = struct.Struct("<QQQ")
_PLACE = struct.Struct("<QQ")


def _aligned(at: int) -> int:
    return (at + _ALIGN - 1) // _ALIGN * _ALIGN


class Pickled:
    """A value that is to be written: its size is known before there is room for it."""

    def __init__(self, value: Any) -> None:
        buffers: list[pickle.PickleBuffer] = []
        self.pickle = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        self.buffers = [buffer.raw() for buffer in buffers]
        at = _HEAD.size + _PLACE.size * len(self.buffers) + len(self.pickle)
        self.places = []
        for buffer in self.buffers:
            at = _aligned(at)
            self.places.append((at, buffer.nbytes))
            at += buffer.nbytes
        self.size = at

    def write(self, writer: Writer) -> None:
        head = [_HEAD.pack(_MAGIC, len(self.buffers), len(self.pickle))]
        head += [_PLACE.pack(*place) for place in self.places]
        writer.write(b"".join((*head, self.pickle)))
        for (begin, _), buffer in zip(self.places, self.buffers):
            writer.write(buffer, begin)


def load(data: memoryview) -> Any:
    if data.nbytes < _HEAD.size:
        raise ValueError("an object of put_object is longer")
    magic, count, size = _HEAD.unpack_from(data)
    begin = _HEAD.size + _PLACE.size * count
    if magic != _MAGIC or begin + size > data.nbytes:
        raise ValueError("an object of put_object has another head")
    buffers = []
    for n in range(count):
        at, length = _PLACE.unpack_from(data, _HEAD.size + _PLACE.size * n)
        if at < begin + size or at + length > data.nbytes:
            raise ValueError("a buffer of the object lies outside it")
        buffers.append(data[at:at + length])
    return pickle.loads(data[begin:begin + size], buffers=buffers)
