"""The unpacker against a list of words: beats hold the words of their job and zeros behind them."""

from __future__ import annotations

from ...common.benches.clock import Dut, begin, bench, reset, setting
from ...common.benches.streams import Sink, StreamSource, running

PORT_WORDS, BEAT_WORDS, WORD_BITS = setting("PORT_WORDS", 4), setting("BEAT_WORDS", 3), setting("WORD_BITS", 16)


@bench(5_000)
async def jobs_become_beats(dut: Dut) -> None:
    """Short and long jobs back to back at several paces give their words and no others."""
    rng = await begin(dut)
    for pace in (1.0, 0.6, 0.3):
        await reset(dut)
        jobs = StreamSource(dut, rng, "job_valid_i", "job_ready_o", ("job_skip_i", "job_words_i"), pace)
        port = StreamSource(dut, rng, "port_valid_i", "port_ready_o", ("port_i",), pace)
        beats = Sink(dut, rng, "beat_valid_o", "beat_ready_i", ("beat_o",), pace)
        want = []
        for _ in range(60):
            skip, count = rng.randrange(PORT_WORDS), rng.choice([1, 2, BEAT_WORDS, rng.randrange(1, 60)])
            words = [rng.randrange(1, 1 << WORD_BITS) for _ in range(-(-(skip + count) // PORT_WORDS) * PORT_WORDS)]
            jobs.items.append((skip, count))
            for at in range(0, len(words), PORT_WORDS):
                port.items.append((number(words[at : at + PORT_WORDS]),))
            asked = words[skip : skip + count]
            want += [(number(asked[at : at + BEAT_WORDS]),) for at in range(0, count, BEAT_WORDS)]
        with running(jobs, port, beats):
            await beats.take(len(want), 20_000)
        assert beats.got == want
        assert not port.items


def number(words: list[int]) -> int:
    """Put words side by side, the first lowest."""
    return sum(word << WORD_BITS * i for i, word in enumerate(words))
