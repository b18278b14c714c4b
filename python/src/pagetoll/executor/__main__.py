"""``python3 -m pagetoll.executor``."""

import sys

from pagetoll.executor.supervisor import main

sys.exit(main())
