/* SPDX-License-Identifier: Apache-2.0 */
/* Everything a client of nigh needs. An embedded node also includes nigh/node.h and links
 * libnigh-node. */
#ifndef NIGH_NIGH_H
#define NIGH_NIGH_H

#include "nigh/client.h"
#include "nigh/object.h"
#include "nigh/region.h"
#include "nigh/rpc.h"
#include "nigh/space.h"
#include "nigh/status.h"
#include "nigh/typed.h"

#endif
