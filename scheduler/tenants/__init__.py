"""Tenants of one NPU: shares, token buckets, criteria that follow the load, and what each of them got."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
