#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a port of a fabric shows to programs that use verbs, and what they can do with its LIDs, paths, partitions,
keys and groups, on a subnet of the real OpenSM: as a port of InfiniBand hardware in Linux. The diagnostics of the
distribution say what is right. Needs root, to become an ordinary user.

Usage: fabric_verbs_test.py --build build/release [Attributes | Groups.test_... ...]
"""
import ipaddress
import os
import re
import shutil
import sys
import unittest

import hosts
from fabrics import HOSTS, TREE, Fabric
from verbs_agents import Agent, await_that, connect

INSTALLATION = None
AGENT = None
QKEY = 0x1234


def start_subnet(test_class, *options, topology=TREE, files=None):
    """A fabric whose ports OpenSM has made Active, for all tests of a class."""
    made = Fabric(INSTALLATION, topology)
    test_class.addClassCleanup(made.end)
    made.await_up()
    for name, text in (files(made) if files else {}).items():
        with open(os.path.join(made.folder, name), "w", encoding="ascii") as file:
            file.write(text)
    made.opensm = made.start_opensm("h1", "osm.log", *options)
    made.await_active()
    test_class.lids = {host: made.lid_of(host) for host in HOSTS}
    return made


class OnASubnet(unittest.TestCase):
    OPTIONS = ()
    TOPOLOGY = TREE

    @classmethod
    def setUpClass(cls):
        cls.made = start_subnet(cls, *cls.OPTIONS, topology=cls.TOPOLOGY, files=cls.files)

    @classmethod
    def files(cls, made):
        return {}

    def agent(self, node):
        made = Agent(self.made, node, AGENT)
        self.addCleanup(made.end)
        return made

    def info(self, node):
        """The PortInfo of a host as smpquery prints it."""
        text = self.made.run(node, "smpquery", "portinfo", str(self.lids[node])).stdout
        return dict(re.findall(r"^(\w+):\.*(.*)$", text, re.M))

    def count(self, port, name):
        counters = {f"{each['node']}[{each['port']}]": each["counters"] for each in self.made.ports()}
        return counters[port][name]


class Attributes(OnASubnet):
    def test_ibv_query_port_shows_what_the_subnet_manager_has_written(self):
        port = self.agent("h0").fields("port")
        info = self.info("h0")
        said = {"lid": int(info["Lid"]), "sm_lid": int(info["SMLid"]), "lmc": int(info["LMC"]),
                "sm_sl": int(info["SMSL"]), "port_cap_flags": int(info["CapMask"], 16),
                "max_mtu": {"2048": 4, "4096": 5}[info["MtuCap"]],
                "active_mtu": {"2048": 4, "4096": 5}[info["NeighborMTU"]],
                "subnet_timeout": int(info["SubnetTimeout"]), "init_type_reply": int(info["InitReply"], 16),
                "bad_pkey_cntr": int(info["PkeyViolations"]), "qkey_viol_cntr": int(info["QkeyViolations"])}
        self.assertEqual({name: port[name] for name in said}, said)
        lanes = {"VL0": 1, "VL0-1": 2, "VL0-3": 3, "VL0-7": 4, "VL0-14": 5}
        self.assertEqual(port["max_vl_num"], lanes[info["VLCap"]])
        fixed = {"state": 4, "phys_state": 5, "link_layer": 1, "active_width": 2, "active_speed": 32, "flags": 0,
                 "gid_tbl_len": 8, "pkey_tbl_len": 64}
        self.assertEqual({name: port[name] for name in fixed}, fixed)

    def test_partition_keys(self):
        agent = self.agent("h0")
        keys = re.findall(r"0x[0-9a-f]{4}", self.made.run("h0", "smpquery", "pkeys", str(self.lids["h0"])).stdout)
        for index in (0, 1, len(keys) - 1):
            self.assertEqual(agent("pkey", index), keys[index])
        self.assertEqual(agent("pkey", len(keys)), "error ibv_query_pkey EINVAL")
        self.assertEqual(agent("pkey", -1), "error ibv_query_pkey EINVAL")
        self.assertEqual(agent("pkey_index", keys[0]), "0")
        self.assertEqual(agent("pkey_index", 0x8001), "error ibv_get_pkey_index EINVAL")

    def test_gids(self):
        agent = self.agent("h0")
        [guid] = re.findall(r"Port GUID: 0x([0-9a-f]+)", self.made.run("h0", "ibstat").stdout)
        gid = str(ipaddress.ip_address((0xfe80 << 112) + int(guid, 16)))
        self.assertEqual(agent("gid", 0), gid)
        self.assertEqual(agent("gid_ex", 0), f"{gid} type=0 index=0 port=1 interface=0")
        self.assertEqual(agent("gid_table"), f"{gid} (1)")
        self.assertEqual(agent("gid", 1), "::", "an empty entry")
        self.assertEqual(agent("gid_ex", 1), "error ibv_query_gid_ex ENODATA")
        self.assertEqual(agent("gid", 8), "error ibv_query_gid EINVAL")
        self.assertEqual(agent("gid_ex", 8), "error ibv_query_gid_ex EINVAL")

    def test_ibv_devinfo_agrees_with_ibstat(self):
        verbs = self.made.run("h0", "ibv_devinfo", "-v").stdout
        [node] = re.findall(r"Node GUID: 0x([0-9a-f]+)", self.made.run("h0", "ibstat").stdout)
        [image] = re.findall(r"System image GUID: 0x([0-9a-f]+)", self.made.run("h0", "ibstat").stdout)
        for name, value in (("node_guid", node), ("sys_image_guid", image)):
            self.assertIn(":".join(re.findall("....", value.zfill(16))), re.search(rf"{name}:\s+(\S+)", verbs)[1])
        for text in (r"link_layer:\s+InfiniBand", r"state:\s+PORT_ACTIVE \(4\)", r"active_width:\s+4X",
                     r"active_speed:\s+25\.0 Gbps", r"phys_state:\s+LINK_UP", r"max_vl_num:\s+8",
                     r"BAD_PKEY_CNTR", r"BAD_QKEY_CNTR"):
            self.assertRegex(verbs, text)


class Rates(OnASubnet):
    TOPOLOGY = (*TREE, "--rate", "4xHDR")
    RATE = 17  # the code of 200 Gb/s

    def test_a_link_of_hdr_is_one_in_verbs(self):
        port = self.agent("h0").fields("port")
        self.assertEqual((port["active_width"], port["active_speed"]), (2, 64))
        self.assertRegex(self.made.run("h0", "ibstat").stdout, r"Rate: 200\b")

    def test_the_rate_of_a_path(self):
        path = self.made.run("h0", "saquery", "PR", "--src-to-dst", f"{self.lids['h0']}:{self.lids['h3']}").stdout
        [rate] = re.findall(r"rate\.+0x([0-9a-f]+)", path)
        self.assertEqual(int(rate, 16) & 0x3f, self.RATE, path)

    def test_data_passes(self):
        h0, h3 = self.agent("h0"), self.agent("h3")
        connect(h0, h3, "rc", (self.lids["h0"], self.lids["h3"]))
        self.assertEqual(h0("send", "hello"), "success")
        self.assertEqual(h3.fields("receive")["text"], "hello")


class RatesOfStrictSwitches(Rates):
    """OpenSM 3.3.23 reads the PortInfo of switches without bit 31, and takes their links for QDR: paths are slower."""
    TOPOLOGY = (*TREE, "--rate", "4xHDR", "--strict-switches")
    RATE = 7  # 40 Gb/s


class Datagrams(OnASubnet):
    def setUp(self):
        self.h0, self.h3 = self.agent("h0"), self.agent("h3")
        self.numbers = {"h0": self.h0.make_qp(), "h3": self.h3.make_qp()}

    def test_without_a_global_header(self):
        self.assertEqual(self.h0("to", self.lids["h3"], 0, 5, self.numbers["h3"], QKEY, "-", "hello"), "success")
        got = self.h3.fields("receive")
        self.assertEqual((got["text"], got["slid"], got["sl"], got["dlid_path_bits"], got["grh"], got["src_qp"]),
                         ("hello", self.lids["h0"], 5, 0, 0, self.numbers["h0"]))
        address = self.h3.fields("return_address")
        self.assertEqual((address["dlid"], address["sl"], address["src_path_bits"], address["is_global"]),
                         (self.lids["h0"], 5, 0, 0))
        self.assertEqual(self.h3("answer", QKEY, "back"), "success")
        self.assertEqual(self.h0.fields("receive")["slid"], self.lids["h3"])

    def test_with_a_global_header(self):
        gids = {"h0": self.h0("gid", 0), "h3": self.h3("gid", 0)}
        self.assertEqual(self.h0("to", self.lids["h3"], 0, 0, self.numbers["h3"], QKEY, gids["h3"], "hello"), "success")
        got = self.h3.fields("receive")
        self.assertEqual((got["text"], got["grh"]), ("hello", 1))
        header = bytes.fromhex(str(got["header"]))
        # IPVer 6, traffic class, flow label; payload from BTH to ICRC: 12 + 8 + 8 + 4; next header 0x1b; hop limit.
        self.assertEqual(header[:8].hex(), "65a12345" + "0020" + "1b" + "11")
        self.assertEqual(header[8:24], ipaddress.ip_address(gids["h0"]).packed)
        self.assertEqual(header[24:], ipaddress.ip_address(gids["h3"]).packed)
        address = self.h3.fields("return_address")
        self.assertEqual((address["is_global"], address["sgid_index"], address["hop_limit"], address["dgid"]),
                         (1, 0, 255, gids["h0"]))
        self.assertEqual((address["traffic_class"], address["flow_label"]), (0x5a, 0x12345))
        self.assertEqual(self.h3("answer", QKEY, "back"), "success")
        self.assertEqual(self.h0.fields("receive")["grh"], 1)

    def test_an_address_handle_needs_a_lid_and_a_gid_of_the_port(self):
        refused = "error ibv_create_ah EINVAL"
        self.assertEqual(self.h0("to", 0, 0, 0, self.numbers["h3"], QKEY, "-", "x"), refused)

    def test_a_wrong_qkey_is_counted_and_reported(self):
        before = self.h3.fields("port")["qkey_viol_cntr"]
        self.assertEqual(self.h0("to", self.lids["h3"], 0, 0, self.numbers["h3"], 0x4321, "-", "strange"), "success")
        self.assertEqual(self.h3("receive_nothing"), "nothing")
        self.assertTrue(await_that(lambda: int(self.info("h3")["QkeyViolations"]) == before + 1))
        self.assertTrue(await_that(lambda: self.h3.fields("port")["qkey_viol_cntr"] == before + 1))
        self.assertTrue(await_that(lambda: re.search(r"num:258|Bad Q_Key|bad Q_Key", self.made.file("osm.log"), re.I)),
                        "the subnet manager has got no trap 258")


class Paths(OnASubnet):
    """Each port has four LIDs, and the two links between the switches share them."""
    OPTIONS = ("-l", "2")

    def test_a_port_has_four_lids(self):
        port = self.agent("h0").fields("port")
        self.assertEqual((port["lmc"], port["lid"] % 4, port["lid"]), (2, 0, self.lids["h0"]))

    def test_path_bits_are_in_the_lids_of_a_datagram(self):
        h0, h3 = self.agent("h0"), self.agent("h3")
        h0.make_qp()
        to = h3.make_qp()
        self.assertEqual(h0("to", self.lids["h3"] + 2, 3, 0, to, QKEY, "-", "hello"), "success")
        got = h3.fields("receive")
        self.assertEqual((got["slid"], got["dlid_path_bits"]), (self.lids["h0"] + 3, 2))
        address = h3.fields("return_address")
        self.assertEqual((address["dlid"], address["src_path_bits"]), (self.lids["h0"] + 3, 2))
        self.assertEqual(h3("answer", QKEY, "back"), "success")
        back = h0.fields("receive")
        self.assertEqual((back["slid"], back["dlid_path_bits"]), (self.lids["h3"] + 2, 3))

    def test_a_connection_takes_the_path_of_its_lids(self):
        h0, h3 = self.agent("h0"), self.agent("h3")
        ways = set()
        for path in range(4):
            for service in ("rc", "uc"):
                with self.subTest(path=path, service=service):
                    connect(h0, h3, service, (self.lids["h0"], self.lids["h3"]), path)
                    ports = [f"leaf0[{number}]" for number in self.ports_between()]
                    before = {port: self.count(port, "sent_packets") for port in ports}
                    for text in ("one", "two", "three"):
                        self.assertEqual(h0("send", text), "success")
                        self.assertEqual(h3.fields("receive")["text"], text)
                    sent = {port: self.count(port, "sent_packets") - before[port] for port in ports}
                    [way] = [port for port in ports if sent[port] >= 3]
                    trace = self.made.run("h0", "ibtracert", str(self.lids["h0"] + path), str(self.lids["h3"] + path))
                    self.assertEqual(re.findall(r"\"leaf0\"\n\[(\d+)\]", trace.stdout), [way[6:-1]])
                    ways.add(way)
        self.assertEqual(len(ways), 2, "the four paths share the two links")

    def ports_between(self):
        return [each["port"] for each in self.made.ports()
                if each["node"] == "leaf0" and str(each["peer"]).startswith("leaf1")]


class Partitions(OnASubnet):
    """h0 is in two partitions, h1 in one of them, h3 in the other one."""
    OPTIONS = ("-P", "partitions.conf")
    A, B = 0x8001, 0x8002

    @classmethod
    def files(cls, made):
        guid = {name: re.search(r"0x[0-9a-f]+", made.run(name, "ibstat", "-p").stdout)[0] for name in HOSTS}
        return {"partitions.conf": f"Default=0x7fff, ipoib: ALL=limited, SELF=full;\n"
                                   f"A=0x1: {guid['h0']}=full, {guid['h1']}=full;\n"
                                   f"B=0x2: {guid['h0']}=full, {guid['h3']}=full;\n"}

    def test_the_right_index_meets(self):
        for service in ("rc", "uc"):
            for other, key in (("h1", self.A), ("h3", self.B)):
                with self.subTest(service=service, other=other):
                    here, there = self.agent("h0"), self.agent(other)
                    indices = [int(agent("pkey_index", key)) for agent in (here, there)]
                    self.assertNotIn(0, indices)
                    connect(here, there, service, (self.lids["h0"], self.lids[other]), 0, indices)
                    self.assertEqual(here("send", "hello"), "success")
                    self.assertEqual(there.fields("receive")["text"], "hello")

    def test_datagrams_of_a_partition(self):
        here, there = self.agent("h0"), self.agent("h3")
        here.make_qp("ud", int(here("pkey_index", self.B)))
        number = there.make_qp("ud", int(there("pkey_index", self.B)))
        self.assertEqual(here("to", self.lids["h3"], 0, 0, number, QKEY, "-", "inside"), "success")
        self.assertEqual(there.fields("receive")["text"], "inside")
        here.make_qp("ud", int(here("pkey_index", self.A)))
        self.assertEqual(here("to", self.lids["h3"], 0, 0, number, QKEY, "-", "outside"), "success")
        self.assertEqual(there("receive_nothing"), "nothing")

    def test_others_are_kept_apart_and_the_port_that_does_so_counts(self):
        h1, h3 = self.agent("h1"), self.agent("h3")
        indices = [int(h1("pkey_index", self.A)), int(h3("pkey_index", self.B))]
        connect(h1, h3, "rc", (self.lids["h1"], self.lids["h3"]), 0, indices)
        kept_out = sum(self.refusals().values())
        self.assertEqual(h1("send", "hello"), "transport retry counter exceeded")
        self.assertEqual(h3("receive_nothing"), "nothing")
        self.assertGreater(sum(self.refusals().values()), kept_out, self.refusals())

    def test_an_index_without_a_key_is_refused(self):
        self.assertEqual(self.agent("h1")("qp", "rc", 63, 0), "error ibv_modify_qp EINVAL")

    def refusals(self):
        """What keeps packets of strange partitions out, at each port that has done so."""
        found = {}
        for port in self.made.ports():
            name = f"{port['node']}[{port['port']}]"
            for counter in ("received_constraint_errors", "sent_constraint_errors", "pkey_violations"):
                if port["counters"].get(counter):
                    found[name, counter] = port["counters"][counter]
        return found


class PartitionsOfQueuePairs(OnASubnet):
    """All hosts but that of the subnet manager are limited members of the only partition, and switches let all pass."""
    OPTIONS = ("-P", "partitions.conf", "-Z", "off")

    @classmethod
    def files(cls, made):
        return {"partitions.conf": "Default=0x7fff, ipoib: ALL=limited, SELF=full;\n"}

    def test_two_limited_members_do_not_meet_and_the_port_counts_that(self):
        h0, h3 = self.agent("h0"), self.agent("h3")
        connect(h0, h3, "rc", (self.lids["h0"], self.lids["h3"]))
        before = h3.fields("port")["bad_pkey_cntr"]
        self.assertEqual(h0("send", "hello"), "transport retry counter exceeded")
        self.assertTrue(await_that(lambda: int(self.info("h3")["PkeyViolations"]) >= before + 4), self.info("h3"))
        self.assertTrue(await_that(lambda: h3.fields("port")["bad_pkey_cntr"] >= before + 4))
        self.assertTrue(await_that(lambda: re.search(r"num:257|bad P_Key", self.made.file("osm.log"), re.I)),
                        "the subnet manager has got no trap 257")

    def test_a_limited_and_a_full_member_meet(self):
        h0, h1 = self.agent("h0"), self.agent("h1")
        connect(h0, h1, "rc", (self.lids["h0"], self.lids["h1"]))
        self.assertEqual(h0("send", "hello"), "success")
        self.assertEqual(h1.fields("receive")["text"], "hello")


class Groups(OnASubnet):
    """Of a group that OpenSM itself has made: that of IPoIB's broadcasts, with the addresses of all ports."""
    OPTIONS = ("-P", "partitions.conf")
    MGID = "ff12:401b:ffff::ffff:ffff"

    @classmethod
    def files(cls, made):
        return {"partitions.conf": "Default=0x7fff, ipoib, mtu=5: ALL=full;\n"}

    def test_attaching_needs_a_lid_of_groups(self):
        agent = self.agent("h0")
        agent.make_qp()
        for lid in (0, 5, 0xbfff, 0xffff):
            self.assertEqual(agent("attach", self.MGID, lid), "error ibv_attach_mcast EINVAL")
        self.assertEqual(agent("attach", "fe80::1", 0xc000), "error ibv_attach_mcast EINVAL")
        self.assertEqual(agent("attach", self.MGID, 0xc000), "done")
        self.assertEqual(agent("detach", self.MGID, 0xc000), "done")
        self.assertEqual(agent("detach", self.MGID, 0xc000), "error ibv_detach_mcast EINVAL")

    def test_a_packet_to_a_group_reaches_members_at_the_own_port_too(self):
        """No port has joined, so no switch forwards the packet: only the sender's port gets it."""
        sender, member, stranger = self.agent("h0"), self.agent("h0"), self.agent("h0")
        for agent in (sender, member, stranger):
            agent.make_qp()
        self.assertEqual(member("attach", self.MGID, 0xc000), "done")
        self.assertEqual(sender("to", 0xc000, 0, 0, 0xffffff, QKEY, self.MGID, "all"), "success")
        got = member.fields("receive")
        self.assertEqual((got["text"], got["grh"], got["slid"], got["dlid_path_bits"]), ("all", 1, self.lids["h0"], 0))
        self.assertEqual(stranger("receive_nothing"), "nothing")
        self.assertEqual(member("detach", self.MGID, 0xc000), "done")
        self.assertEqual(sender("to", 0xc000, 0, 0, 0xffffff, QKEY, self.MGID, "all"), "success")
        self.assertEqual(member("receive_nothing"), "nothing")


def main():
    def use(installation):
        global INSTALLATION, AGENT
        INSTALLATION = installation
        build = os.path.abspath(sys.argv[sys.argv.index("--build") + 1]) if "--build" in sys.argv else "build/release"
        AGENT = os.path.join(build, "tests/verbs_agent")

    programs = ("opensm", "smpquery", "ibtracert", "ibv_devinfo")
    missing = [program for program in programs if shutil.which(program) is None]
    obstacle = "needs root, to become an ordinary user" if os.geteuid() != 0 else ", ".join(missing) + " missing"
    return hosts.run_tests(__doc__, obstacle if os.geteuid() != 0 or missing else "", use)


if __name__ == "__main__":
    sys.exit(main())
