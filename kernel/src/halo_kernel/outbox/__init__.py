"""What sessions and plugins owe: durable before it is sent, sent once, settled in the open."""

from .claims import REASONS as REASONS
from .claims import Held as Held
from .claims import owe_parent as owe_parent
from .claims import pay as pay
from .claims import read_pointer as read_pointer
from .claims import take_pointer as take_pointer
from .courier import Courier as Courier
from .debts import has_unsettled as has_unsettled
from .debts import listed as listed
from .debts import owe as owe
from .debts import owe_replies as owe_replies
from .debts import retry as retry
