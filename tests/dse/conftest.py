"""Property tests of this room have no deadline: on a busy machine a slow example is not a wrong one."""

from hypothesis import settings

settings.register_profile("dse", deadline=None)
settings.load_profile("dse")
