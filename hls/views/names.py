"""Names in generated text.

>>> camel("SLOT_BASE_LO"), camel("core_command"), one_word("my net; end")
('SlotBaseLo', 'CoreCommand', 'my_net__end')
"""

from __future__ import annotations

import re


def camel(name: str) -> str:
    """The UpperCamelCase of a name with underscores."""
    return "".join(part.capitalize() for part in name.split("_") if part)


def one_word(name: str) -> str:
    """A name from a file as one harmless word of generated text."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name) or "_"
