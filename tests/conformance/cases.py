# SPDX-License-Identifier: Apache-2.0
"""What is run: each case is one program and its options, once per network and address family."""
from dataclasses import dataclass, replace


# Packets that wait for an answer.
REQUESTS = "RC_SEND*,RC_RDMA_WRITE*,RC_RDMA_READ_REQUEST,RC_CMPSWAP,RC_FETCHADD"


@dataclass(frozen=True)
class Case:
    program: str
    options: tuple = ()
    kind: str = "perftest"  # how its two ends are called: see programs_of() in run.py
    small: bool = True      # belongs to the covering selection
    min_mtu: int = 0        # of the interface
    needs_cm: bool = False  # connects through librdmacm
    faults: int = 0         # per cent of packets dropped, of those reordered, of those duplicated

    @property
    def label(self):
        words = " ".join((self.program,) + self.options)
        return f"{words} [{self.faults} % faults]" if self.faults else words

    @property
    def is_reliable(self):
        """Whether it must end well on a network that loses packets."""
        if self.kind == "pingpong":
            return self.program in ("ibv_rc_pingpong", "ibv_srq_pingpong")
        if self.kind in ("perftest", "perftest-cm"):
            return "UC" not in self.options and "UD" not in self.options
        return self.kind == "rping" and "-P" not in self.options

    def environments(self):
        """Of the server and of the client."""
        if not self.faults:
            return {}, {}
        rules = "; ".join(f"out {fault} {self.faults}%" + "{}" for fault in
                          ("drop", "reorder", "duplicate"))
        # The program that sends the last ping ends at once, and its last acknowledgement is then not
        # repeated. perftest has such a last message, too, when it connects through rdma_cm (UD: the
        # datagrams of the communication manager), and a server that has ended cannot repeat its last one.
        of_server = of_client = ""
        if self.kind == "pingpong":
            of_server = of_client = " opcode=RC_SEND*"
        elif self.kind == "perftest-cm":
            of_server, of_client = f" opcode={REQUESTS}", f" opcode=UD_SEND*,{REQUESTS}"
        # With events it takes the next one for that of its own send, though that is still
        # unacknowledged when the peer's answer was faster, and then finds its queue full.
        if self.program == "ib_send_lat" and "-e" in self.options:
            of_server = of_client = " opcode=RC_SEND*"
        return tuple({"VERBATIM_FAULTS": rules.format(of, " by=3" + of, of)}
                     for of in (of_server, of_client))


def _case(line, **more):
    words = line.split()
    return Case(words[0], tuple(words[1:]), **more)


def _alone():
    return [_case("ibv_devices", kind="alone"), _case("ibv_devinfo -v", kind="alone")]


def _diags():
    """They know no library: what they say stands in /sys/class/infiniband."""
    return [_case("ibstat", kind="alone"), _case("ibstatus", kind="alone")]


def _pingpong():
    cases = []
    for kind in ("rc", "uc", "ud", "srq"):
        for events in ("", "-e"):
            cases.append(_case(f"ibv_{kind}_pingpong -n 100 -c {events}", kind="pingpong"))
        cases.append(_case(f"ibv_{kind}_pingpong -n 50 -s 1 -c", kind="pingpong", small=False))
    cases.append(_case("ibv_rc_pingpong -n 20 -s 1048576 -c", kind="pingpong"))
    cases.append(_case("ibv_rc_pingpong -n 20 -s 100001 -m 256 -c", kind="pingpong", small=False))
    cases.append(_case("ibv_rc_pingpong -n 100 -t -c", kind="pingpong", small=False))
    cases.append(_case("ibv_rc_pingpong -n 100 -N -c", kind="pingpong", small=False))
    cases.append(_case("ibv_srq_pingpong -n 20 -q 4 -c", kind="pingpong", small=False))
    return cases


OPERATIONS = (  # program stem and transports
    ("send", ("RC", "UC", "UD")), ("write", ("RC", "UC")), ("read", ("RC",)), ("atomic", ("RC",)))


def _perftest():
    cases = []
    for operation, transports in OPERATIONS:
        for transport in transports:
            size = "" if operation == "atomic" else " -s 1000"
            short = f"-c {transport} -n 100{size}"
            cases.append(_case(f"ib_{operation}_bw {short}"))
            cases.append(_case(f"ib_{operation}_lat {short}"))
            cases.append(_case(f"ib_{operation}_bw {short} -b", small=transport == "RC"))
            cases.append(_case(f"ib_{operation}_bw {short} -q 4", small=transport == "RC"))
            cases.append(_case(f"ib_{operation}_bw {short} -l 4", small=operation == "write"))
            cases.append(_case(f"ib_{operation}_bw {short} -Q 20", small=operation == "write"))
            cases.append(_case(f"ib_{operation}_bw {short} -t 1", small=False))
            if operation != "write":  # ib_write_bw has no events: a WRITE is not received
                cases.append(_case(f"ib_{operation}_bw {short} -e", small=transport != "UC"))
            if operation in ("send", "read"):
                cases.append(_case(f"ib_{operation}_lat {short} -e", small=transport == "RC"))
            if operation != "atomic":
                all_sizes = f"-c {transport} -n 5 -a"
                cases.append(_case(f"ib_{operation}_bw {all_sizes}", small=transport == "RC"))
                cases.append(_case(f"ib_{operation}_lat {all_sizes}", small=False))
                for mtu in (256, 512, 1024, 2048, 4096):
                    if transport != "UD":
                        cases.append(_case(
                            f"ib_{operation}_bw -c {transport} -n 20 -s 20000 -m {mtu}",
                            min_mtu=mtu + 80, small=transport == "RC" and mtu in (256, 4096)))
            if operation == "atomic":
                for kind in ("CMP_AND_SWAP", "FETCH_AND_ADD"):
                    cases.append(_case(f"ib_atomic_bw -n 100 -A {kind}"))
    for transport in ("RC", "UD"):
        cases.append(_case(f"ib_send_bw -c {transport} -n 100 -s 1000 --use-srq"))
        cases.append(_case(f"ib_send_bw -c {transport} -n 100 -s 1000 --use-srq -q 4", small=False))
    return cases


# Without -cm1 qperf addresses by LID alone, which no adapter on an Ethernet takes; and it knows -cm1
# for RC only.
QPERF_TESTS = (
    "rc_bw", "rc_lat", "rc_bi_bw", "rc_rdma_read_bw", "rc_rdma_read_lat", "rc_rdma_write_bw",
    "rc_rdma_write_lat", "rc_rdma_write_poll_lat", "rc_compare_swap_mr", "rc_fetch_add_mr",
    "ver_rc_compare_swap", "ver_rc_fetch_add")


def _qperf():
    few = ("rc_bw", "rc_lat", "rc_rdma_read_bw", "ver_rc_fetch_add")
    return [Case("qperf", ("-cm1", test), kind="qperf", small=test in few, needs_cm=True)
            for test in QPERF_TESTS]


def _rdmacm():
    """What comes with librdmacm, and perftest when it connects through it."""
    lines = [  # and whether the covering selection has it
        ("rping -v -V -C 100", True), ("rping -v -V -C 10 -S 60000", True), ("rping -q -V -C 20", True),
        ("rping -P -V -C 20", True), ("ucmatose", True), ("ucmatose -c 20 -C 20", True),
        ("ucmatose -m", True), ("ucmatose -P ib", True), ("ucmatose -a 14 -t 32", True),
        ("ucmatose -S 5000 -C 100", False), ("udaddy", True), ("udaddy -c 10 -C 20", True),
        ("udaddy -p 0x2", True), ("udaddy -S 1000", False), ("rdma_client", True),
        ("cmtime -c 100", True), ("cmtime -c 1000", False), ("mckey -C 20", True),
        ("mckey -c 4 -S 1000", False), ("mckey -o", True)]
    cases = [_case(line, kind=line.split()[0], small=small, needs_cm=True) for line, small in lines]
    for operation, transports in OPERATIONS:
        size = "" if operation == "atomic" else " -s 1000"
        for transport in transports:
            if transport == "UC":
                continue  # perftest connects RC and UD through rdma_cm, no others
            for test in ("bw", "lat"):
                cases.append(_case(f"ib_{operation}_{test} -R -c {transport} -n 100{size}",
                                   kind="perftest-cm", needs_cm=True))
            cases.append(_case(f"ib_{operation}_bw -R -c {transport} -n 100{size} -q 4",
                               kind="perftest-cm", needs_cm=True, small=operation == "send"))
            for options in _options_with_cm(operation, transport, size):
                cases.append(_case(f"ib_{operation}_{options}", kind="perftest-cm", needs_cm=True,
                                   small=False))
    return cases


def _options_with_cm(operation, transport, size):
    """What the covering selection leaves out: the options of perftest, one at a time."""
    short = f"-R -c {transport} -n 100{size}"
    more = [f"bw {short} {option}" for option in ("-b", "-l 4", "-Q 20", "-t 1", "-z")]
    if operation != "write":
        more.append(f"bw {short} -e")
    if operation in ("send", "read"):
        more.append(f"lat {short} -e")
    if operation == "send":
        more.append(f"bw {short} --use-srq")
    if operation != "atomic":
        more += [f"{test} -R -c {transport} -n 5 -a" for test in ("bw", "lat")]
    return more


# What the covering selection runs over a bad network.
FEW_WITH_FAULTS = (
    "ibv_rc_pingpong -n 100 -c", "ibv_srq_pingpong -n 100 -c -e",
    "ibv_rc_pingpong -n 20 -s 1048576 -c", "ib_send_bw -c RC -n 5 -a", "ib_write_bw -c RC -n 5 -a",
    "ib_read_bw -c RC -n 5 -a", "ib_send_bw -c RC -n 100 -s 1000 -q 4", "ib_atomic_bw -c RC -n 100",
    "ib_read_lat -c RC -n 100 -s 1000 -e", "ib_send_bw -c RC -n 100 -s 1000 --use-srq",
    "rping -v -V -C 100")


def _with_faults(cases):
    return [replace(case, faults=percent, small=case.label in FEW_WITH_FAULTS)
            for percent in (1, 5) for case in cases if case.is_reliable]


def _fabric():
    """libfabric's verbs provider: connections, messages over connections, datagrams. It listens at
    `localhost`, which is every address, as in Linux."""
    return [_case(f"fi_pingpong -p verbs -c -I 20 -e {kind}", kind="fabric", needs_cm=True)
            for kind in ("msg", "rdm", "dgram")]


def _ucx():
    """UCX makes its connections by datagrams and moves data over RC, or everything by datagrams."""
    return [_case(f"ucx_perftest {ways} -t {test}", kind="ucx")
            for ways, test in (("rc_verbs,ud_verbs", "tag_lat -n 1000 -w 100"),
                               ("rc_verbs,ud_verbs", "tag_bw -s 100000 -n 500 -w 100"),
                               ("rc_verbs,ud_verbs", "ucp_put_lat -n 1000 -w 100"),
                               ("rc_verbs,ud_verbs", "ucp_get -s 100000 -n 200 -w 20"),
                               ("rc_verbs,ud_verbs", "ucp_fadd -s 8 -n 1000 -w 100"),
                               ("ud_verbs", "tag_lat -n 1000 -w 100"),
                               ("ud_verbs", "tag_bw -s 100000 -n 50 -w 10"))]


def all_cases():
    cases = _alone() + _pingpong() + _perftest() + _qperf() + _rdmacm()
    return cases + _with_faults(cases) + _diags() + _fabric() + _ucx()
