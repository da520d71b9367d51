"""Networks that ship: residual networks to train, ResNet-50 and Inception-v3, and random ones."""
