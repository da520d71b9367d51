"""Selection of exits and thresholds for batched serving (PAME, section 6), guaranteed on unseen data."""
