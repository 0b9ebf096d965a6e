/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/**
 * @file snicstore.h
 * Every module at once, floor by floor. The generated single header has this
 * name and replaces it.
 */
#ifndef SNICSTORE_H
#define SNICSTORE_H

#include "snicstore/base.h"
#include "snicstore/ssd.h"
#include "snicstore/kvop.h"
#include "snicstore/fsop.h"

#include "snicstore/loop.h"
#include "snicstore/io.h"
#include "snicstore/dma.h"
#include "snicstore/net.h"
#include "snicstore/kv.h"

#include "snicstore/ring.h"
#include "snicstore/cuckoo.h"
#include "snicstore/hcache.h"
#include "snicstore/ebs.h"

#include "snicstore/gimbal.h"
#include "snicstore/credit.h"
#include "snicstore/ddp.h"
#include "snicstore/ddpnic.h"
#include "snicstore/member.h"
#include "snicstore/kvfs.h"
#include "snicstore/fuse_wire.h"
#include "snicstore/fuse.h"
#include "snicstore/solar.h"
#include "snicstore/luna.h"
#include "snicstore/nvme.h"
#include "snicstore/nvme_wire.h"
#include "snicstore/nvmefs.h"
#include "snicstore/nvmesub.h"
#include "snicstore/nvmetcp.h"
#include "snicstore/nvmeauth.h"

#include "snicstore/qos.h"
#include "snicstore/nvmet.h"
#include "snicstore/nvmehost.h"
#include "snicstore/wal.h"
#include "snicstore/segments.h"
#include "snicstore/volume.h"
#include "snicstore/control.h"
#include "snicstore/replica.h"
#include "snicstore/store.h"
#include "snicstore/storeclient.h"
#include "snicstore/fs.h"
#include "snicstore/nvmefslink.h"
#include "snicstore/hcachelink.h"
#include "snicstore/fscache.h"
#include "snicstore/fsdispatch.h"
#include "snicstore/fusedev.h"

#include "snicstore/channel.h"
#include "snicstore/files.h"
#include "snicstore/filelib.h"
#include "snicstore/filelib_sync.h"
#include "snicstore/offload.h"
#include "snicstore/director.h"

#endif /* SNICSTORE_H */
