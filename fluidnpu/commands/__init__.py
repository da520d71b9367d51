"""The subcommands of `fluidnpu`, a file each: the click command, the frozen record of its options, its
function.

Rooms are named as modules (`dse.explore`) and their doors are lazy, so that importing a subcommand loads none
of them. For the same reason NumPy is imported inside the functions that use it.
"""
