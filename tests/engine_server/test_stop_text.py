from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pagesim.engine.server.stop_text import StopFinder

letters = st.text("ab", max_size=12)


@given(st.lists(letters, min_size=1), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3))
def test_however_a_text_is_cut_the_same_is_given_out(pieces: list[str], stops: list[str]) -> None:
    """Up to the end that is found first: a stop counts once it is whole, the one that begins earliest."""
    whole = "".join(pieces)
    ends = [whole.find(stop) + len(stop) for stop in stops if stop in whole]
    read = whole[: min(ends)] if ends else whole
    expected = read[: min(read.find(stop) for stop in stops if stop in read)] if ends else whole
    finder = StopFinder(tuple(stops))
    given_out, stopped = "", False
    for character in whole:
        assert not stopped
        text, stopped = finder.feed(character, last=False)
        given_out += text
        if stopped:
            break
    if not stopped:
        text, stopped = finder.feed("", last=True)
        given_out += text
    assert given_out == expected
    assert stopped == bool(ends)


@given(st.lists(letters, min_size=1), st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=3))
def test_nothing_of_a_stop_is_ever_given_out(pieces: list[str], stops: list[str]) -> None:
    finder = StopFinder(tuple(stops))
    given_out = ""
    for index, piece in enumerate(pieces):
        text, stopped = finder.feed(piece, last=index == len(pieces) - 1)
        given_out += text
        assert not any(stop in given_out for stop in stops)
        assert "".join(pieces).startswith(given_out)
        if stopped:
            return
    assert given_out == "".join(pieces)
