// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one table of a ChipSpec's fields: JSON path, member, unit, allowed values, description. It drives reading, --set,
// the JSON of a resolved chip and `sluice show chip`. A field that is missing here does not exist for users; a test
// compares the table with the shipped files.
//
// The upper bounds are far above anything that will be built, and low enough that no product of fields overflows 64
// bits; what must fit together is checked in chip_spec_check.cpp.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isa/chip_spec.hpp"

namespace sluice::isa {

/// What the table says of an integer field.
struct IntegerField {
    std::string_view path;  ///< "ttu.contexts"
    std::string_view unit;  ///< "B", "Hz", "cycles", ...; "" for a count
    std::int64_t lowest = 0;
    std::int64_t highest = 0;
    std::string_view description;
};

/// What the table says of a text field.
struct TextField {
    std::string_view path;
    std::vector<std::string> allowed;  ///< empty: any text
    std::string_view description;
};

namespace fields {

constexpr std::int64_t kSmallCount = 64;
constexpr std::int64_t kMaxCycles = 1'000'000;
constexpr std::int64_t kMaxWidth = 65'536;  // bytes per cycle
constexpr std::int64_t kMaxSramBytes = std::int64_t{1} << 32;
constexpr std::int64_t kMaxPacket = 8'160;  // bytes; 255 bursts
constexpr std::int64_t kMaxCk = 1'000'000;

template <class Visitor, class Chip>
void describe_soc(Visitor& visit, Chip& chip) {
    auto& soc = chip.soc;
    visit({"soc.clusters", "", 1, kSmallCount, "clusters on the chip"}, soc.clusters);
    visit({"soc.tiles_per_cluster_physical", "", 1, kSmallCount, "tile slots on the mesh of a cluster"},
          soc.tiles_per_cluster_physical);
    visit({"soc.tiles_per_cluster", "", 1, kSmallCount, "enabled tiles of a cluster"}, soc.tiles_per_cluster);
    visit({"soc.disabled_slot", "", 0, kSmallCount,
           "first mesh slot without a tile, when fewer tiles are enabled than exist"},
          soc.disabled_slot);
    visit({"clock.core_hz", "Hz", 1'000'000, 10'000'000'000, "clock of tiles, SRAMs and networks"}, chip.clock.core_hz);
}

template <class Visitor, class Chip>
void describe_engines(Visitor& visit, Chip& chip) {
    auto& ttu = chip.ttu;
    visit({"ttu.contexts", "", 1, kSmallCount, "instruction queues that share the tensor unit"}, ttu.contexts);
    visit({"ttu.k_per_cycle_fp4", "", 1, 1'024, "k of a 32 x k by k x 32 product per cycle, FP4"}, ttu.k_per_cycle_fp4);
    visit({"ttu.k_per_cycle_fp6", "", 1, 1'024, "the same, FP6"}, ttu.k_per_cycle_fp6);
    visit({"ttu.k_per_cycle_fp8", "", 1, 1'024, "the same, FP8 and mixed pairs"}, ttu.k_per_cycle_fp8);
    visit({"ttu.k_per_cycle_bf16", "", 1, 1'024, "the same, BF16"}, ttu.k_per_cycle_bf16);
    visit({"ttu.takes_fp16", "", 0, 1, "1: FP16 operands too, at BF16's rate"}, ttu.takes_fp16);
    visit({"ttu.operand_bytes_per_cycle", "B/cycle", 32, kMaxWidth, "operand port, each operand, scales included"},
          ttu.operand_bytes_per_cycle);
    visit({"ttu.accumulator_bytes_per_cycle", "B/cycle", 32, kMaxWidth, "FP32 blocks to and from TSRAM, each way"},
          ttu.accumulator_bytes_per_cycle);
    visit({"ttu.pipeline_latency_cycles", "cycles", 1, kMaxCycles, "first operand read to last accumulate"},
          ttu.pipeline_latency_cycles);
    visit({"ttu.macro_overhead_cycles", "cycles", 0, kMaxCycles, "unit idle per macro"}, ttu.macro_overhead_cycles);
    auto& tvp = chip.tvp;
    visit({"tvp.contexts", "", 1, kSmallCount, "instruction queues that share the vector processor"}, tvp.contexts);
    visit({"tvp.lanes_16b", "", 1, kMaxWidth, "lanes for elements of at most 16 bits"}, tvp.lanes_16b);
    visit({"tvp.lanes_32b", "", 1, kMaxWidth, "lanes for FP32"}, tvp.lanes_32b);
    visit({"tvp.issue_slots", "", 1, kSmallCount, "operations per lane and cycle"}, tvp.issue_slots);
    visit({"tvp.transcendental_slots", "", 1, 1'024, "slots of exp, reciprocal and rsqrt"}, tvp.transcendental_slots);
    visit({"tvp.pipeline_latency_cycles", "cycles", 1, kMaxCycles, "first load to first store"},
          tvp.pipeline_latency_cycles);
    visit({"tvp.read_ports", "", 1, kSmallCount, "read ports into TSRAM; there is one write port"}, tvp.read_ports);
    visit({"tvp.port_bytes_per_cycle", "B/cycle", 32, kMaxWidth, "each read port, and the write port"},
          tvp.port_bytes_per_cycle);
    auto& reshaper = chip.reshaper;
    visit({"reshaper.lanes_8b", "", 1, kMaxWidth, "elements per cycle, 8 bits and narrower"}, reshaper.lanes_8b);
    visit({"reshaper.lanes_16b", "", 1, kMaxWidth, "elements per cycle, 16 bits"}, reshaper.lanes_16b);
    visit({"reshaper.lanes_32b", "", 1, kMaxWidth, "elements per cycle, 32 bits"}, reshaper.lanes_32b);
    visit({"reshaper.latency_cycles", "cycles", 1, kMaxCycles, "first read to first write"}, reshaper.latency_cycles);
}

template <class Visitor, class Chip>
void describe_srams(Visitor& visit, Chip& chip) {
    auto& tsram = chip.tsram;
    visit({"tsram.bytes", "B", 4'096, kMaxSramBytes, "SRAM of a tile"}, tsram.bytes);
    visit({"tsram.banks", "", 1, 64, "banks of a TSRAM"}, tsram.banks);
    visit({"tsram.bank_bytes_per_cycle", "B/cycle", 32, 4'096, "width of a bank"}, tsram.bank_bytes_per_cycle);
    visit({"tsram.output_region_bytes", "B", 4'096, kMaxSramBytes, "FP32 accumulators, pinned at offset 0"},
          tsram.output_region_bytes);
    visit({"tsram.latency_cycles", "cycles", 1, kMaxCycles, "access of a bank"}, tsram.latency_cycles);
    visit({"tsram.age_bound_cycles", "cycles", 1, kMaxCycles,
           "an engine that has stalled so long in a row for its banks goes before the others"},
          tsram.age_bound_cycles);
    auto& csram = chip.csram;
    visit({"csram.bytes", "B", 4'096, kMaxSramBytes, "SRAM of a cluster"}, csram.bytes);
    visit({"csram.banks", "", 1, 64, "banks of a CSRAM"}, csram.banks);
    visit({"csram.bank_bytes_per_cycle", "B/cycle", 32, 4'096, "width of a bank"}, csram.bank_bytes_per_cycle);
    visit({"csram.bytes_per_cycle", "B/cycle", 32, kMaxWidth, "reads and writes together"}, csram.bytes_per_cycle);
    visit({"csram.latency_cycles", "cycles", 1, kMaxCycles, "access of a bank; network hops extra"},
          csram.latency_cycles);
}

template <class Visitor, class Chip>
void describe_control(Visitor& visit, Chip& chip) {
    auto& tdma = chip.tdma;
    visit({"tdma.channels", "", 1, kSmallCount, "queues of a tile's DMA engine"}, tdma.channels);
    visit({"tdma.bytes_per_cycle", "B/cycle", 1, kMaxWidth, "each direction"}, tdma.bytes_per_cycle);
    visit({"tdma.max_inflight_bytes", "B", 32, kMaxSramBytes, "asked for and not yet delivered"},
          tdma.max_inflight_bytes);
    visit({"tdma.setup_cycles", "cycles", 1, kMaxCycles, "per descriptor"}, tdma.setup_cycles);
    auto& cdma = chip.cdma;
    visit({"cdma.channels", "", 1, kSmallCount, "queues of a cluster's DMA engine"}, cdma.channels);
    visit({"cdma.bytes_per_cycle", "B/cycle", 1, kMaxWidth, "each direction"}, cdma.bytes_per_cycle);
    visit({"cdma.max_inflight_bytes", "B", 32, kMaxSramBytes, "asked for and not yet delivered"},
          cdma.max_inflight_bytes);
    visit({"cdma.setup_cycles", "cycles", 1, kMaxCycles, "per descriptor"}, cdma.setup_cycles);
    auto& control = chip.control;
    visit({"control.issue_cycles", "cycles", 1, kMaxCycles, "control processor, per instruction"},
          control.issue_cycles);
    visit({"control.queue_depth", "", 1, kMaxWidth, "instructions per channel or context"}, control.queue_depth);
    visit({"control.max_waits", "", 1, 8, "semaphores that an instruction may wait for"}, control.max_waits);
    visit({"control.max_signals", "", 1, 8, "semaphores that an instruction may signal"}, control.max_signals);
    visit({"control.load_index_cycles", "cycles", 1, kMaxCycles, "read of an index table"}, control.load_index_cycles);
    auto& semaphores = chip.semaphores;
    visit({"semaphores.per_tile", "", 1, kMaxWidth, "semaphores of a tile"}, semaphores.per_tile);
    visit({"semaphores.per_cluster", "", 1, kMaxWidth, "semaphores of a cluster"}, semaphores.per_cluster);
    visit({"semaphores.per_chip", "", 1, kMaxWidth, "semaphores of the chip"}, semaphores.per_chip);
    visit({"semaphores.width_bits", "bits", 1, 32, "of the counter"}, semaphores.width_bits);
    visit({"semaphores.latency_local_cycles", "cycles", 1, kMaxCycles, "signal to wait within a tile"},
          semaphores.latency_local_cycles);
    visit({"semaphores.latency_cluster_cycles", "cycles", 1, kMaxCycles, "between parts of one cluster"},
          semaphores.latency_cluster_cycles);
    visit({"semaphores.latency_global_cycles", "cycles", 1, kMaxCycles, "between clusters, or to the chip level"},
          semaphores.latency_global_cycles);
}

template <class Visitor, class Chip>
void describe_networks(Visitor& visit, Chip& chip) {
    auto& noc = chip.noc;
    visit({"noc.packet_bytes", "B", 32, kMaxPacket, "unit of transport; equals hbm.granule_bytes"}, noc.packet_bytes);
    visit(
        {"noc.buffer_packets", "packets", 1, kMaxWidth, "room in front of a resource beyond what is on its way there"},
        noc.buffer_packets);
    visit({"noc.landing_packets", "packets", 1, kMaxWidth, "the same in front of an SRAM, where packets land"},
          noc.landing_packets);
    visit({"noc.sram_first", "", 0, 1, "1: transfers between SRAMs pass waiting ones of the HBM; 0: first come"},
          noc.sram_first);
    visit({"noc.tile_port_bytes_per_cycle", "B/cycle", 1, kMaxWidth, "crossbar port of a tile, each direction"},
          noc.tile_port_bytes_per_cycle);
    visit({"noc.tile_mesh_bytes_per_cycle", "B/cycle", 1, kMaxWidth, "link of the tile mesh, each direction"},
          noc.tile_mesh_bytes_per_cycle);
    visit({"noc.cluster_port_bytes_per_cycle", "B/cycle", 1, kMaxWidth, "cluster to GNoC, each direction"},
          noc.cluster_port_bytes_per_cycle);
    visit({"noc.router_latency_cycles", "cycles", 1, kMaxCycles, "per router"}, noc.router_latency_cycles);
    visit({"noc.link_latency_cycles", "cycles", 1, kMaxCycles, "per link"}, noc.link_latency_cycles);
    visit({"noc.crossbar_latency_cycles", "cycles", 1, kMaxCycles, "through a cluster's crossbar"},
          noc.crossbar_latency_cycles);
    visit({"noc.control_port_bytes_per_cycle", "B/cycle", 1, kMaxWidth, "port of the control plane, each direction"},
          noc.control_port_bytes_per_cycle);
    visit({"noc.control_message_bytes", "B", 1, 1'024, "semaphore signal or read request"}, noc.control_message_bytes);
    auto& gnoc = chip.gnoc;
    visit({"gnoc.link_bytes_per_cycle", "B/cycle", 1, kMaxWidth, "link of the global mesh, each direction"},
          gnoc.link_bytes_per_cycle);
    visit({"gnoc.hbm_port_bytes_per_cycle", "B/cycle", 1, kMaxWidth, "port of a stack, each direction"},
          gnoc.hbm_port_bytes_per_cycle);
    visit({"gnoc.anc_port_bytes_per_cycle", "B/cycle", 1, kMaxWidth, "port of a group of network controllers"},
          gnoc.anc_port_bytes_per_cycle);
    visit({"gnoc.pcie_port_bytes_per_cycle", "B/cycle", 1, kMaxWidth, "host port"}, gnoc.pcie_port_bytes_per_cycle);
    visit({"gnoc.interface_latency_cycles", "cycles", 1, kMaxCycles, "on entering the mesh, and again on leaving it"},
          gnoc.interface_latency_cycles);
    visit({"gnoc.link_micrometres", "um", 1, 100'000, "length of a mesh link"}, gnoc.link_micrometres);
    auto& network = chip.network;
    visit({"network.anc_count", "", 0, 1'024, "network controllers"}, network.anc_count);
    visit({"network.anc_bits_per_second", "bit/s", 1'000'000, 100'000'000'000'000, "each controller, each direction"},
          network.anc_bits_per_second);
    visit({"network.pcie_bytes_per_second", "B/s", 1'000'000, 100'000'000'000'000, "each direction"},
          network.pcie_bytes_per_second);
}

template <class Visitor, class Chip>
void describe_hbm(Visitor& visit, Chip& chip) {
    auto& hbm = chip.hbm;
    visit(TextField{"hbm.memory", {}, "standard in configs/memories, by name or path"}, hbm.memory);
    visit({"hbm.stacks", "", 1, kSmallCount, "HBM stacks"}, hbm.stacks);
    visit({"hbm.channels_per_stack", "", 1, kSmallCount, "channels of a stack"}, hbm.channels_per_stack);
    visit({"hbm.pseudo_channels", "", 1, 4, "pseudo-channels of a channel; they share its command buses"},
          hbm.pseudo_channels);
    visit({"hbm.bank_groups", "", 1, 8, "bank groups of a rank"}, hbm.bank_groups);
    visit({"hbm.banks_per_group", "", 1, 16, "banks of a bank group"}, hbm.banks_per_group);
    visit({"hbm.ranks", "", 1, 16, "stack ids"}, hbm.ranks);
    visit({"hbm.rows", "", 1, 1'048'576, "rows of a bank"}, hbm.rows);
    visit({"hbm.row_bytes", "B", 256, 16'384, "row of a bank"}, hbm.row_bytes);
    visit({"hbm.burst_bytes", "B", 32, 32, "one burst: the beat of the whole design"}, hbm.burst_bytes);
    visit({"hbm.granule_bytes", "B", 32, kMaxPacket, "consecutive bytes of one pseudo-channel"}, hbm.granule_bytes);
    visit({"hbm.pseudo_channel_bits", "bits", 1, 1'024, "data pins of a pseudo-channel"}, hbm.pseudo_channel_bits);
    visit({"hbm.bits_per_second_per_pin", "bit/s", 100'000'000, 100'000'000'000, "data rate"},
          hbm.bits_per_second_per_pin);
    visit({"hbm.transfers_per_ck", "", 1, 16, "transfers of a pin in a CK"}, hbm.transfers_per_ck);
    visit({"hbm.controller_picoseconds", "ps", 1, 1'000'000, "controller, both ways together"},
          hbm.controller_picoseconds);
    visit({"hbm.phy_picoseconds", "ps", 0, 1'000'000, "PHY, both ways together"}, hbm.phy_picoseconds);
    visit({"hbm.read_queue", "", 1, 4'096, "requests in the read queue of a channel"}, hbm.read_queue);
    visit({"hbm.write_queue", "", 1, 4'096, "requests in the write queue of a channel"}, hbm.write_queue);
    visit({"hbm.write_high", "", 1, 4'096, "queued writes at which a channel begins to drain them"}, hbm.write_high);
    visit({"hbm.write_low", "", 0, 4'096, "queued writes at which it ends"}, hbm.write_low);
    visit({"hbm.prepare", "", 0, 4'096, "queued writes before a turn at which rows are opened for it"}, hbm.prepare);
    visit({"hbm.age_limit", "", 1, 1'000'000, "times that the oldest request may be passed over"}, hbm.age_limit);
    visit(TextField{"hbm.page", {"open", "timeout", "closed"}, "when rows are closed"}, hbm.page);
    visit({"hbm.page_timeout", "CK", 0, kMaxCk, "with page \"timeout\""}, hbm.page_timeout);
    visit(TextField{"hbm.refresh", {"per_bank", "all_bank", "none"}, "refresh commands"}, hbm.refresh);
    visit({"hbm.refresh_postponed", "", 0, 64, "intervals that per-bank refreshes may be late"}, hbm.refresh_postponed);
    visit({"hbm.refresh_ahead", "", 0, 64, "intervals that those of an idle pseudo-channel may be early"},
          hbm.refresh_ahead);
    visit(TextField{"hbm.address_map", {}, "map in configs/address_maps, by name or path"}, hbm.address_map);
}

template <class Visitor, class Chip>
void describe_hbm_timing(Visitor& visit, Chip& chip) {
    auto& timing = chip.hbm.timing;
    const auto gap = [&visit](std::string_view path, std::int64_t& member, std::string_view description) {
        visit({path, "CK", 1, kMaxCk, description}, member);
    };
    gap("hbm.timing.ncl", timing.ncl, "read to data");
    gap("hbm.timing.ncwl", timing.ncwl, "write to data");
    gap("hbm.timing.nbl", timing.nbl, "a burst on the data bus");
    gap("hbm.timing.nppd", timing.nppd, "precharge to precharge");
    gap("hbm.timing.nrcdrd", timing.nrcdrd, "activate to read");
    gap("hbm.timing.nrcdwr", timing.nrcdwr, "activate to write");
    gap("hbm.timing.nrp", timing.nrp, "precharge to activate or refresh");
    gap("hbm.timing.nras", timing.nras, "activate to precharge");
    gap("hbm.timing.nrc", timing.nrc, "activate to activate, same bank");
    gap("hbm.timing.nrtp", timing.nrtp, "read to precharge");
    gap("hbm.timing.nwr", timing.nwr, "end of write data to precharge");
    gap("hbm.timing.nccds", timing.nccds, "column to column, other bank group");
    gap("hbm.timing.nccdl", timing.nccdl, "column to column, same bank group");
    gap("hbm.timing.nccdr", timing.nccdr, "read to read, other rank");
    gap("hbm.timing.nrrds", timing.nrrds, "activate to activate, other bank group");
    gap("hbm.timing.nrrdl", timing.nrrdl, "activate to activate, same bank group");
    gap("hbm.timing.nfaw", timing.nfaw, "window of four activates");
    gap("hbm.timing.nwtrs", timing.nwtrs, "end of write data to read, other bank group");
    gap("hbm.timing.nwtrl", timing.nwtrl, "end of write data to read, same bank group");
    gap("hbm.timing.nrtw", timing.nrtw, "read to write");
    gap("hbm.timing.nrfc", timing.nrfc, "all-bank refresh");
    gap("hbm.timing.nrfcpb", timing.nrfcpb, "per-bank refresh");
    gap("hbm.timing.nrrefd", timing.nrrefd, "per-bank refresh to refresh or activate of another bank");
    gap("hbm.timing.nrefi", timing.nrefi, "mean interval in which every row set is refreshed once");
}

template <class Visitor, class Chip>
void describe_schedule(Visitor& visit, Chip& chip) {
    visit({"schedule.eager_launch_cycles", "cycles", 0, kMaxCycles, "before each operator of an eager schedule"},
          chip.schedule.eager_launch_cycles);
}

template <class Visitor, class Chip>
void describe_power(Visitor& visit, Chip& chip) {
    auto& power = chip.power;
    visit({"power.tdp_milliwatts", "mW", 1, 1'000'000'000, "thermal design power"}, power.tdp_milliwatts);
    visit({"power.core_millivolts", "mV", 300, 1'500, "core supply"}, power.core_millivolts);
    visit(TextField{"power.energy_table", {}, "table in configs/energy, by name or path"}, power.energy_table);
}

}  // namespace fields

/// Calls visit(IntegerField, member) or visit(TextField, member) for every field, in the order of the struct.
template <class Visitor, class Chip>
void describe(Visitor&& visit, Chip& chip) {
    fields::describe_soc(visit, chip);
    fields::describe_engines(visit, chip);
    fields::describe_srams(visit, chip);
    fields::describe_control(visit, chip);
    fields::describe_networks(visit, chip);
    fields::describe_hbm(visit, chip);
    fields::describe_hbm_timing(visit, chip);
    fields::describe_schedule(visit, chip);
    fields::describe_power(visit, chip);
}

}  // namespace sluice::isa
