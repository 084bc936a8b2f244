"""Whether a folder lies on a file system that several machines may share, where WAL is not safe."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# f_type of statfs(2): linux/magic.h and the file systems' own headers
_SERVED = {0x6969, 0x517B, 0xFF534D42, 0xFE534D42, 0x5346414F, 0x6B414653}  # NFS, SMB, CIFS, SMB2, AFS twice
# Ceph, Lustre, GPFS, BeeGFS, OCFS2, GFS2
_CLUSTER = {0x00C36400, 0x0BD00BD0, 0x47504653, 0x19830326, 0x7461636F, 0x01161970}
_GUEST = {0x65735546, 0x01021997, 0x786F4256, 0xBACBACBC, 0x7C7C6673}  # FUSE, 9P, VirtualBox, VMware, Parallels
NETWORK_TYPES = _SERVED | _CLUSTER | _GUEST
_MNT_LOCAL = 0x1000  # sys/mount.h of macOS
_FLAGS = 8  # the word with f_flags in the 64-bit struct statfs of macOS


def is_network(folder: Path) -> bool:
    """Tell whether the folder is on a network or shared file system; an unknown one counts as local."""
    words = (ctypes.c_long * 512)()
    library = ctypes.CDLL(None)
    statfs = getattr(library, "statfs$INODE64", None) or library.statfs  # macOS on Intel has an older one as well
    statfs(os.fsencode(folder), words)
    if sys.platform == "darwin":
        return not words[_FLAGS] & _MNT_LOCAL
    return words[0] & 0xFFFFFFFF in NETWORK_TYPES
