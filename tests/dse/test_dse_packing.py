"""Two int8 products in one slice (ADR 75), for every weight, activation and sum that a chain can have."""

import numpy as np
import pytest

from fluidnpu.dse.hardware.array import Array

WEIGHTS, WORDS = np.arange(-127, 128), np.arange(-128, 128)
MULTIPLIER_BITS = {17: 25, 18: 27}  # of the wide port of a DSP48E1 and a DSP48E2


def longest_chain(field_bits: int) -> int:
    """Words of the longest chain that any array has with one cascade."""
    arrays = (
        Array(t_r=8, t_p=n, t_c=4, weight_slots=2, in_words=2 * n, word_bits=8, field_bits=field_bits)
        for n in range(8, 120)
    )
    return max(int(array.segment) for array in arrays)


@pytest.mark.parametrize("field_bits", MULTIPLIER_BITS)
def test_every_product_of_two_weights_and_a_word(field_bits: int) -> None:
    """All 255 x 255 x 256: both weights fit the port, and the fields hold both products."""
    half = 1 << MULTIPLIER_BITS[field_bits] - 1
    for upper in WEIGHTS:
        packed = (int(upper) << field_bits) + WEIGHTS
        assert -half <= packed.min()
        assert packed.max() < half
        product = packed[:, None] * WORDS
        lower = (product + (1 << field_bits - 1)) % (1 << field_bits) - (1 << field_bits - 1)
        assert np.array_equal(lower, WEIGHTS[:, None] * WORDS)
        assert np.array_equal((product - lower) >> field_bits, np.broadcast_to(upper * WORDS, product.shape))


@pytest.mark.parametrize("field_bits", MULTIPLIER_BITS)
def test_two_bits_tell_the_sums_of_the_longest_chain_apart(field_bits: int) -> None:
    """For every lower sum of a chain, and upper ones of all residues; twice the words are too many."""
    words = longest_chain(field_bits)

    def apart(words: int) -> bool:
        """Whether the decoder gives both sums back, for all lower sums of so many products."""
        most = words * 127 * 128
        lower = np.arange(-most, most + 1)
        for upper in (-3, -2, -1, 0, 1, most):
            total = (upper << field_bits) + lower
            carried = ((total >> field_bits) - upper) % 4  # what the field has more than the side channel says
            carried = np.where(carried > 1, carried - 4, carried)
            found = (carried << field_bits) + total % (1 << field_bits)
            if not np.array_equal(found, lower) or np.any((total >> field_bits) - carried != upper):
                return False
        return True

    assert words == {17: 16, 18: 32}[field_bits]
    assert apart(words)
    assert not apart(2 * words)
