#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Recompute the ICRC of every RoCEv2 packet of pcap files with ibcrc.py."""
import sys, collections
from pcapio import read_pcap, rocev2_of
from ibcrc import icrc_rocev2
tot = bad = 0
seen = collections.Counter()
for p in sys.argv[1:]:
    for n, ts, fr, link in read_pcap(p):
        r = rocev2_of(fr)
        if not r:
            continue
        hdr, pay = r
        tot += 1
        c = icrc_rocev2(hdr, pay[:-4])
        ok = c == pay[-4:]
        bad += not ok
        seen[(hdr[0] >> 4, pay[0], (pay[1] >> 4) & 3)] += 1
        if not ok:
            print(p, n, "BAD", c.hex(), pay[-4:].hex())
print("packets", tot, "bad", bad, "distinct (ipver,opcode,pad)", len(seen))
print("opcodes v4:", " ".join("%02x" % o for o in sorted({k[1] for k in seen if k[0] == 4})))
print("opcodes v6:", " ".join("%02x" % o for o in sorted({k[1] for k in seen if k[0] == 6})))
sys.exit(1 if bad or not tot else 0)
