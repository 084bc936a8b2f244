"""`python -m halo_kernel`: the same as `halo`."""

import sys

from .command import main

sys.exit(main())
