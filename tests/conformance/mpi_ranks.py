#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What each process of mpi_test.py does: messages small and large, and collective operations. Every octet
is checked."""
import array

from mpi4py import MPI

# Open MPI over UCX sends the first at once; the peer fetches the last by itself.
SIZES = (0, 1, 8, 1000, 8000, 60_001, 1_000_000)
world = MPI.COMM_WORLD
rank, count = world.rank, world.size


def octets(size, whose, tag):
    return bytearray((whose * 31 + tag * 7 + i) % 251 for i in range(size))


def send_around_the_ring():
    before, behind = (rank - 1) % count, (rank + 1) % count
    for tag, size in enumerate(SIZES):
        got = bytearray(size)
        world.Sendrecv(octets(size, rank, tag), behind, tag, got, before, tag)
        assert got == octets(size, before, tag), (rank, size)


def send_many_at_once():
    rooms = [bytearray(500) for _ in range(50 * count)]
    wanted = [world.Irecv(rooms[i], i % count, i) for i in range(len(rooms))]
    sent = [world.Isend(octets(500, rank, n), to, n * count + rank)
            for n in range(50) for to in range(count)]
    MPI.Request.Waitall(wanted + sent)
    for i, room in enumerate(rooms):
        assert room == octets(500, i % count, i // count), (rank, i)


def compute_together():
    mine = array.array("d", [rank + i for i in range(5000)])
    total = array.array("d", [0.0] * len(mine))
    world.Allreduce(mine, total)
    assert all(value == count * i + count * (count - 1) / 2 for i, value in enumerate(total))
    assert world.alltoall([(rank, to) for to in range(count)]) == [(of, rank) for of in range(count)]


for step in (send_around_the_ring, send_many_at_once, compute_together):
    step()
    world.Barrier()
if rank == 0:
    print(f"{count} processes agree")
