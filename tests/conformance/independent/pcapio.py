#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Minimal classic-pcap reader/writer (no dependency)."""
import struct

def read_pcap(path):
    d = open(path, "rb").read()
    magic = d[:4]
    if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        e = "<"
    elif magic in (b"\xa1\xb2\xc3\xd4", b"\xa1\xb2\x3c\x4d"):
        e = ">"
    else:
        raise ValueError("not a pcap")
    link = struct.unpack(e + "I", d[20:24])[0]
    o = 24
    n = 0
    while o + 16 <= len(d):
        ts, us, cl, ol = struct.unpack(e + "IIII", d[o:o + 16])
        o += 16
        if o + cl > len(d):
            break
        n += 1
        yield n, ts + us * 1e-6, d[o:o + cl], link
        o += cl

def write_pcap(path, frames, link=1):
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, link))
        for i, fr in enumerate(frames):
            f.write(struct.pack("<IIII", i, 0, len(fr), len(fr)))
            f.write(fr)

def rocev2_of(frame):
    """(ip_udp_bytes, udp_payload) of an Ethernet frame carrying UDP/4791, or None."""
    et = int.from_bytes(frame[12:14], "big")
    o = 14
    if et == 0x8100:
        et = int.from_bytes(frame[16:18], "big")
        o = 18
    if et == 0x0800 and frame[o + 9] == 17 and (frame[o] & 15) == 5:
        ihl = 20
    elif et == 0x86DD and frame[o + 6] == 17:
        ihl = 40
    else:
        return None
    u = o + ihl
    if int.from_bytes(frame[u + 2:u + 4], "big") != 4791:
        return None
    ul = int.from_bytes(frame[u + 4:u + 6], "big")
    return frame[o:u + 8], frame[u + 8:u + ul]
