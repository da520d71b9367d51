"""The Open Inference Protocol v2 over REST and gRPC: models, server and client."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
