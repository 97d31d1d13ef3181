# SPDX-License-Identifier: Apache-2.0
"""Arrays of numbers as objects: the object is the array's bytes, and its metadata what they are:

    "nigh.array", 0, 1      12 bytes
    "C" or "F"              the order of the bytes
    dimensions              1 byte, at most 64
    length of each          8 bytes, little endian
    the type                as numpy writes it ("<f8"), to the end

What is read is checked: metadata that lies is a ValueError."""
from __future__ import annotations

import functools
import math
import re
import struct
from typing import Any, Literal

import numpy

from ._native import View

_MAGIC = b"nigh.array\x00\x01"
_HEAD = struct.Struct("<12scB")
_DIMENSIONS = 64
# Order, kind and bytes, and of times the unit, as numpy writes them: it takes much else for a type, some of that for a
# program's, and of a unit that is divided by zero the process dies.
_TYPE = re.compile(rb"[<>|=][a-zA-Z][0-9]{1,9}(\[([1-9][0-9]{0,9})?[a-zA-Z]{1,2}\])?")


def taken_apart(array: Any) -> tuple[bytes, Any]:
    """Its metadata, and its bytes: those of the array, without a copy where they lie in a row."""
    array = numpy.asanyarray(array)
    if isinstance(array, numpy.ma.MaskedArray):
        raise ValueError("a masked array has a mask beside its numbers; it goes by put_object")
    # What of a type its text does not say would be lost.
    text = array.dtype.str.encode("ascii")
    if (array.dtype.hasobject or array.dtype.fields is not None or _TYPE.fullmatch(text) is None
            or numpy.dtype(array.dtype.str) != array.dtype):
        raise ValueError("an array of numbers is wanted; others go by put_object")
    order = b"F" if array.flags.f_contiguous and not array.flags.c_contiguous else b"C"
    meta = b"".join((_HEAD.pack(_MAGIC, order, array.ndim), struct.pack(f"<{array.ndim}Q", *array.shape), text))
    row = (array.T if order == b"F" else numpy.ascontiguousarray(array)).reshape(-1)
    return meta, row.view(numpy.uint8)


@functools.lru_cache(maxsize=256)
def _described(meta: bytes) -> tuple[Any, tuple[int, ...], Literal["C", "F"], int]:
    """The type, the shape, the order and the size that metadata tell of."""
    if len(meta) < _HEAD.size:
        raise ValueError("the object was not put by put_array")
    magic, order, dimensions = _HEAD.unpack_from(meta)
    end = _HEAD.size + 8 * dimensions
    if magic != _MAGIC or order not in (b"C", b"F") or dimensions > _DIMENSIONS or end >= len(meta) or len(meta) > 1024:
        raise ValueError("the object was not put by put_array")
    shape = struct.unpack_from(f"<{dimensions}Q", meta, _HEAD.size)
    if _TYPE.fullmatch(meta, end) is None:
        raise ValueError("the object's type is none")
    try:
        dtype = numpy.dtype(meta[end:].decode("ascii"))
    except (TypeError, UnicodeDecodeError, SyntaxError) as error:
        raise ValueError("the object's type is none") from error
    if dtype.hasobject or dtype.fields is not None or dtype.subdtype is not None or dtype.itemsize == 0:
        raise ValueError("the object's type is none of numbers")
    return dtype, shape, "C" if order == b"C" else "F", dtype.itemsize * math.prod(shape)


def put_together(view: View) -> numpy.ndarray[Any, Any]:
    data: Any = view  # a buffer, which not all checkers know
    dtype, shape, order, size = _described(view.meta)
    if size != len(view):
        raise ValueError("the object's metadata and its size do not agree")
    if size == 0:
        empty = numpy.empty(shape, dtype)
        empty.flags.writeable = False
        return empty
    # frombuffer keeps a buffer, and so the view's pin; not all that numpy makes of buffers does.
    array: numpy.ndarray[Any, Any] = numpy.frombuffer(data, dtype).reshape(shape, order=order)
    return array
