#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A router that does something to the packets that cross it. It makes a TUN interface, t0, in the
namespace it runs in, and sends back what the kernel routes there, changed as told:

    pass        nothing
    drop        UDP port 4791 is lost
    translate   10.78.1.2 is seen as 10.78.9.9 from the other side
    renumber    IPv4 identifications become 0x4242

Usage: bad_router.py ILLNESS
"""
import fcntl
import os
import struct
import subprocess
import sys

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
INSIDE, OUTSIDE = bytes((10, 78, 1, 2)), bytes((10, 78, 9, 9))
TCP, UDP = 6, 17


def checksum(octets):
    if len(octets) % 2:
        octets += b"\0"
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def sealed(header, body):
    """The packet with its checksums as they must be."""
    header[10:12] = b"\0\0"
    header[10:12] = struct.pack(">H", checksum(bytes(header)))
    at = {TCP: 16, UDP: 6}.get(header[9])
    if at and not (header[9] == UDP and body[at:at + 2] == b"\0\0"):
        body[at:at + 2] = b"\0\0"
        pseudo = bytes(header[12:20]) + struct.pack(">BBH", 0, header[9], len(body))
        body[at:at + 2] = struct.pack(">H", checksum(pseudo + bytes(body)) or 0xFFFF)
    return bytes(header + body)


def changed(packet, illness):
    """What leaves for a packet that came; None when nothing does."""
    header, body = bytearray(packet[:20]), bytearray(packet[20:])
    if header[0] != 0x45:
        return None
    if illness == "drop" and header[9] == UDP and body[2:4] == struct.pack(">H", 4791):
        return None
    if illness == "translate":
        if header[12:16] == INSIDE:
            header[12:16] = OUTSIDE
        if header[16:20] == OUTSIDE:
            header[16:20] = INSIDE
    if illness == "renumber":
        header[4:6] = b"\x42\x42"
    header[8] -= 1
    return sealed(header, body)


def main():
    tun = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"t0", IFF_TUN | IFF_NO_PI))
    # From either side to the TUN; from the TUN on, as the addresses say.
    for command in ("ip link set t0 up", "ip route add default dev t0 table 77",
                    "ip rule add iif r1 table 77 pref 10", "ip rule add iif r2 table 77 pref 10"):
        subprocess.run(command.split(), check=True)
    print("ready", flush=True)
    while True:
        packet = changed(os.read(tun, 65536), sys.argv[1])
        if packet is not None:
            os.write(tun, packet)


if __name__ == "__main__":
    main()
