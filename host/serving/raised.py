"""The errors of `host.errors` that the door of this folder shows, since the room's own door is full."""

from ..errors import AccessError as AccessError
from ..errors import DeviceInUseError as DeviceInUseError
from ..errors import ExpiredError as ExpiredError
from ..errors import IntegrityError as IntegrityError
from ..errors import ModelUnavailableError as ModelUnavailableError
from ..errors import ProtocolError as ProtocolError
from ..errors import RemoteError as RemoteError
from ..errors import ShedError as ShedError
from ..errors import TooLargeError as TooLargeError
from ..errors import UnknownModelError as UnknownModelError
from ..errors import UnsupportedError as UnsupportedError
