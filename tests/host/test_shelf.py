"""The shelf of small blocks, with plain objects for blocks: what is held is nobody else's, the rest comes again."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from netcl.shelf import ALONE, Shelf, references

SIZE = 64


class Block:
    pass


class Counted:
    """A shelf whose `made` says how many blocks are fresh, and whose `take` is that of a pool."""

    def __init__(self) -> None:
        self.made = 0
        self.shelf = Shelf(self._make)

    def _make(self, nbytes: int) -> Block:
        assert nbytes == SIZE
        self.made += 1
        return Block()

    def take(self) -> Block:
        try:
            return self.shelf.free[SIZE].pop()
        except IndexError:
            return self.shelf.find(SIZE)


def test_references_are_counted_beyond_the_list() -> None:
    alone, held = Block(), Block()
    there = [alone, held, held]
    del alone
    assert references(there) == [ALONE, ALONE + 2, ALONE + 2]


@pytest.mark.parametrize("seed", range(5))
def test_a_block_in_use_is_nobody_elses_and_few_are_made(seed: int) -> None:
    counted, rng = Counted(), random.Random(seed)
    held: list[Block] = []
    most = 0
    for _ in range(20_000):
        if held and rng.random() < 0.5 + 0.3 * (len(held) > 300):
            held.pop(rng.randrange(len(held)))
        else:
            block = counted.take()
            assert all(block is not each for each in held[-50:])
            held.append(block)
            del block
        most = max(most, len(held))
    assert len({*map(id, held)}) == len(held)
    assert counted.made <= 2 * most + 64
    assert counted.shelf.idle() == (SIZE * (counted.made - len(held)), counted.made - len(held))


def test_a_graph_that_comes_again_makes_no_block() -> None:
    counted = Counted()
    for _ in range(3):  # the second may still make some: at the first's end not all were looked for
        graph = [counted.take() for _ in range(5000)]
        made = counted.made
        del graph
    for _ in range(5):
        graph = [counted.take() for _ in range(5000)]
        del graph
    assert counted.made == made <= 10_000


def test_some_that_stay_do_not_make_the_shelf_grow_for_ever() -> None:
    counted = Counted()
    stay = [counted.take() for _ in range(1000)]
    for _ in range(100_000):
        counted.take()
    assert counted.made <= 2064 and len(stay) == 1000


def test_threads_never_get_the_same_block() -> None:
    counted, wrong = Counted(), []
    owners: dict[int, int] = {}

    def work(me: int) -> None:
        rng = random.Random(me)
        mine: list[Block] = []
        for _ in range(5000):
            if len(mine) > 40 or (mine and rng.random() < 0.4):
                block = mine.pop(rng.randrange(len(mine)))
                if owners.pop(id(block)) != me:
                    wrong.append(block)
            else:
                block = counted.take()
                if owners.setdefault(id(block), me) != me or any(block is each for each in mine):
                    wrong.append(block)
                mine.append(block)
            del block
        for block in mine:
            owners.pop(id(block))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and counted.made <= 2 * 4 * 41 + 64


def test_who_waited_while_another_searched_takes_what_that_found() -> None:
    counted = Counted()
    for _ in range(20):
        graph = [counted.take() for _ in range(1000)]
        del graph
        made = counted.made
        first = counted.take()  # which searches
        for _ in range(3):  # as threads do that found none before, and waited for the lock
            counted.shelf.find(SIZE)
        graph = [counted.take() for _ in range(900)]
        assert counted.made <= made + 32 and first not in graph
        del graph, first
    assert counted.made <= 2000


@contextmanager
def eager_collector() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(1)
    yield
    gc.set_threshold(*before)


def test_a_finaliser_that_takes_one_during_a_search_gets_another() -> None:
    counted = Counted()
    taken: list[Block] = []

    class Dying:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            taken.append(counted.take())

    held: list[Block] = []
    with eager_collector():
        for i in range(2000):
            Dying()
            held.append(counted.take())
            if i % 3:
                held.pop(0)
    gc.collect()
    assert len(taken) == 2000
    assert len({*map(id, [*held, *taken])}) == len(held) + len(taken)


def test_what_nobody_holds_can_go_and_the_rest_stays() -> None:
    counted = Counted()
    held = [counted.take() for _ in range(10)]
    more = [counted.take() for _ in range(90)]
    del more
    assert counted.shelf.idle() == (90 * SIZE, 90)
    counted.shelf.clear()
    assert counted.shelf.idle() == (0, 0)
    again = [counted.take() for _ in range(5)]
    assert counted.made == 105 and not {*map(id, held)} & {*map(id, again)}
