#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Independent bit-level calculator for the InfiniBand / RoCE packet CRCs.

Nothing here uses zlib/binascii/crcmod: both CRCs are computed one bit at a
time from the polynomial, so the module can serve as a slow oracle.

ICRC : 32 bit, generator 0x04C11DB7, register preset to all ones, bytes fed
       least-significant-bit first, result complemented, transmitted as the
       four bytes  r & 0xff, r>>8 & 0xff, r>>16 & 0xff, r>>24  where r is the
       (reflected-register) complemented result, i.e. the same value and byte
       order as an Ethernet FCS.
VCRC : 16 bit, generator 0x100B (x^16+x^12+x^3+x+1), preset all ones, bytes
       fed LSB first, complemented, transmitted low byte first.
"""

def _reflect(v, n):
    r = 0
    for _ in range(n):
        r = (r << 1) | (v & 1)
        v >>= 1
    return r

ICRC_POLY = 0x04C11DB7
VCRC_POLY = 0x100B
_ICRC_REFL = _reflect(ICRC_POLY, 32)
_VCRC_REFL = _reflect(VCRC_POLY, 16)

def _crc_bits(data, reg, refl):
    for byte in data:
        for i in range(8):
            bit = (byte >> i) & 1
            fb = (reg & 1) ^ bit
            reg >>= 1
            if fb:
                reg ^= refl
    return reg

def icrc_register(data, reg=0xFFFFFFFF):
    return _crc_bits(data, reg, _ICRC_REFL)

def vcrc_register(data, reg=0xFFFF):
    return _crc_bits(data, reg, _VCRC_REFL)

def icrc_bytes(masked):
    return (icrc_register(masked) ^ 0xFFFFFFFF).to_bytes(4, "little")

def vcrc_bytes(data):
    return (vcrc_register(data) ^ 0xFFFF).to_bytes(2, "little")

# ---- masking -------------------------------------------------------------

def mask_bth(bth_on):
    b = bytearray(bth_on)
    b[4] = 0xFF            # resv8a: FECN, BECN, 6 reserved bits
    return bytes(b)

def rocev2_masked(ip_udp, bth_on):
    """ip_udp: IPv4(20)+UDP(8) or IPv6(40)+UDP(8) exactly as on the wire
       (lengths already final); bth_on: BTH..payload..pad, without ICRC."""
    h = bytearray(ip_udp)
    ver = h[0] >> 4
    if ver == 4:
        assert len(h) == 28 and (h[0] & 15) == 5
        h[1] = 0xFF                       # TOS (DSCP+ECN)
        h[8] = 0xFF                       # TTL
        h[10] = h[11] = 0xFF              # header checksum
        h[20 + 6] = h[20 + 7] = 0xFF      # UDP checksum
    elif ver == 6:
        assert len(h) == 48
        h[0] |= 0x0F                      # traffic class high nibble
        h[1] = h[2] = h[3] = 0xFF         # traffic class low nibble + flow label
        h[7] = 0xFF                       # hop limit
        h[40 + 6] = h[40 + 7] = 0xFF      # UDP checksum
    else:
        raise ValueError("not IP")
    return b"\xff" * 8 + bytes(h) + mask_bth(bth_on)

def rocev1_masked(grh, bth_on):
    g = bytearray(grh)
    g[0] |= 0x0F
    g[1] = g[2] = g[3] = 0xFF
    g[7] = 0xFF
    return b"\xff" * 8 + bytes(g) + mask_bth(bth_on)

def ib_local_masked(lrh, bth_on):
    l = bytearray(lrh)
    l[0] |= 0xF0                          # VL only
    return bytes(l) + mask_bth(bth_on)

def ib_global_masked(lrh, grh, bth_on):
    g = bytearray(grh)
    g[0] |= 0x0F
    g[1] = g[2] = g[3] = 0xFF
    g[7] = 0xFF
    return b"\xff" * 8 + bytes(g) + mask_bth(bth_on)

def icrc_rocev2(ip_udp, bth_on):
    return icrc_bytes(rocev2_masked(ip_udp, bth_on))

def icrc_rocev1(grh, bth_on):
    return icrc_bytes(rocev1_masked(grh, bth_on))

def icrc_ib_local(lrh, bth_on):
    return icrc_bytes(ib_local_masked(lrh, bth_on))

def icrc_ib_global(lrh, grh, bth_on):
    return icrc_bytes(ib_global_masked(lrh, grh, bth_on))

if __name__ == "__main__":
    # self checks
    assert icrc_register(b"\xff" * 8) == 0xDEBB20E3, hex(icrc_register(b"\xff"*8))
    assert icrc_bytes(b"123456789") == (0xCBF43926).to_bytes(4, "little")
    print("ok")
