"""Whether a folder lies on a file system that several machines may share, where WAL is not safe."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# f_type of statfs(2), linux/magic.h and the file systems' own headers
NETWORK_TYPES = {
    0x6969: "NFS",
    0x517B: "SMB",
    0xFF534D42: "CIFS",
    0xFE534D42: "SMB2",
    0x65735546: "FUSE",
    0x01021997: "9P",
    0x5346414F: "AFS",
    0x6B414653: "AFS",
    0x73757245: "Coda",
    0x564C: "NCP",
    0x00C36400: "Ceph",
    0x0BD00BD0: "Lustre",
    0x47504653: "GPFS",
    0x19830326: "BeeGFS",
    0x7461636F: "OCFS2",
    0x01161970: "GFS2",
    0x786F4256: "VirtualBox shared folder",
    0xBACBACBC: "VMware shared folder",
    0x7C7C6673: "Parallels shared folder",
}
_MNT_LOCAL = 0x1000  # sys/mount.h of macOS
_FLAGS_OFFSET = 64  # of f_flags in the 64-bit struct statfs of macOS


def is_network(folder: Path) -> bool:
    """Tell whether the folder is on a network or shared file system; an unknown one counts as local."""
    buffer = ctypes.create_string_buffer(4096)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        statfs = getattr(library, "statfs$INODE64", None) or library.statfs
        if statfs(os.fsencode(folder), buffer) != 0:
            return False
    except (OSError, AttributeError):
        return False
    if sys.platform == "darwin":
        return not int.from_bytes(buffer.raw[_FLAGS_OFFSET : _FLAGS_OFFSET + 4], sys.byteorder) & _MNT_LOCAL
    word = ctypes.sizeof(ctypes.c_long)
    return int.from_bytes(buffer.raw[:word], sys.byteorder) & 0xFFFFFFFF in NETWORK_TYPES
