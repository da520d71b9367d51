"""The messages and codecs of the protocol, under server and clients alike."""
