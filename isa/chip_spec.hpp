// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machine as software and hardware both see it. Plain data; read strictly from configs/chips/*.json by
// chip_spec_reader.hpp. Derived figures (peaks, ridge points, tile count) are functions, never fields.
#include <cstdint>
#include <string>

#include "isa/format.hpp"
#include "isa/memory_spec.hpp"
#include "isa/units.hpp"

namespace sluice::isa {

struct SocSpec {
    std::int64_t clusters = 0;
    std::int64_t tiles_per_cluster_physical = 0;
    std::int64_t tiles_per_cluster = 0;  ///< enabled
    std::int64_t disabled_slot = 0;      ///< first physical mesh slot that carries no tile (same in every cluster)
};

struct ClockSpec {
    std::int64_t core_hz = 0;
};

struct TtuSpec {
    std::int64_t contexts = 0;
    std::int64_t k_per_cycle_fp4 = 0;
    std::int64_t k_per_cycle_fp6 = 0;
    std::int64_t k_per_cycle_fp8 = 0;
    std::int64_t k_per_cycle_bf16 = 0;
    std::int64_t operand_bytes_per_cycle = 0;      ///< per operand, scales included
    std::int64_t accumulator_bytes_per_cycle = 0;  ///< FP32 blocks to and from TSRAM, each direction
    std::int64_t pipeline_latency_cycles = 0;
    std::int64_t macro_overhead_cycles = 0;
    std::int64_t takes_fp16 = 0;  ///< 0 or 1
};

struct TvpSpec {
    std::int64_t contexts = 0;
    std::int64_t lanes_16b = 0;
    std::int64_t lanes_32b = 0;
    std::int64_t issue_slots = 0;           ///< operations per lane and cycle
    std::int64_t transcendental_slots = 0;  ///< slots of exp, reciprocal, rsqrt
    std::int64_t pipeline_latency_cycles = 0;
    std::int64_t read_ports = 0;
    std::int64_t port_bytes_per_cycle = 0;  ///< each read port, and the write port
};

struct ReshaperSpec {
    std::int64_t lanes_8b = 0;
    std::int64_t lanes_16b = 0;
    std::int64_t lanes_32b = 0;
    std::int64_t latency_cycles = 0;
};

struct TsramSpec {
    std::int64_t bytes = 0;
    std::int64_t banks = 0;
    std::int64_t bank_bytes_per_cycle = 0;
    std::int64_t output_region_bytes = 0;  ///< pinned FP32 accumulator region at offset 0; a hardware limit
    std::int64_t latency_cycles = 0;
    std::int64_t age_bound_cycles = 0;  ///< an engine that stalls so long goes before the others
};

struct CsramSpec {
    std::int64_t bytes = 0;
    std::int64_t banks = 0;
    std::int64_t bank_bytes_per_cycle = 0;
    std::int64_t bytes_per_cycle = 0;  ///< reads and writes together
    std::int64_t latency_cycles = 0;
};

struct DmaSpec {
    std::int64_t channels = 0;
    std::int64_t bytes_per_cycle = 0;  ///< each direction
    std::int64_t max_inflight_bytes = 0;
    std::int64_t setup_cycles = 0;  ///< per descriptor; overlaps the transfer of another channel
};

struct ControlSpec {
    std::int64_t issue_cycles = 0;
    std::int64_t queue_depth = 0;
    std::int64_t max_waits = 0;
    std::int64_t max_signals = 0;
    std::int64_t load_index_cycles = 0;
};

struct SemaphoreSpec {
    std::int64_t per_tile = 0;
    std::int64_t per_cluster = 0;
    std::int64_t per_chip = 0;
    std::int64_t width_bits = 0;
    std::int64_t latency_local_cycles = 0;    ///< within a tile
    std::int64_t latency_cluster_cycles = 0;  ///< between parts of one cluster
    std::int64_t latency_global_cycles = 0;   ///< between clusters, or to the chip level
};

struct NocSpec {
    std::int64_t packet_bytes = 0;
    std::int64_t buffer_packets = 0;             ///< in front of a resource, beyond what is on its way there
    std::int64_t landing_packets = 0;            ///< the same in front of an SRAM
    std::int64_t sram_first = 0;                 ///< 1: transfers between SRAMs pass waiting ones of the HBM
    std::int64_t tile_port_bytes_per_cycle = 0;  ///< crossbar port of a tile, each direction
    std::int64_t tile_mesh_bytes_per_cycle = 0;  ///< link of the 1-D tile mesh, each direction
    std::int64_t cluster_port_bytes_per_cycle = 0;
    std::int64_t router_latency_cycles = 0;
    std::int64_t link_latency_cycles = 0;
    std::int64_t crossbar_latency_cycles = 0;
    std::int64_t control_port_bytes_per_cycle =
        0;                                   ///< of the control plane: every tile, cluster, stack, each direction
    std::int64_t control_message_bytes = 0;  ///< a semaphore signal, a read request
};

struct GnocSpec {
    std::int64_t link_bytes_per_cycle = 0;
    std::int64_t hbm_port_bytes_per_cycle = 0;
    std::int64_t anc_port_bytes_per_cycle = 0;
    std::int64_t pcie_port_bytes_per_cycle = 0;
    std::int64_t interface_latency_cycles = 0;  ///< entering, and again leaving
    std::int64_t link_micrometres = 0;
};

/// In cycles of the memory's own clock (CK); nXY is the gap from X to Y.
struct HbmTimingSpec {
    std::int64_t ncl = 0, ncwl = 0, nrcdrd = 0, nrcdwr = 0, nrp = 0, nras = 0, nrc = 0, nrtp = 0, nwr = 0;
    std::int64_t nccds = 0, nccdl = 0, nccdr = 0, nrrds = 0, nrrdl = 0, nfaw = 0, nwtrs = 0, nwtrl = 0, nrtw = 0;
    std::int64_t nrfc = 0, nrfcpb = 0, nrrefd = 0, nrefi = 0, nbl = 0, nppd = 0;
};

struct HbmSpec {
    std::string memory;  ///< timing standard, in configs/memories/
    std::int64_t stacks = 0;
    std::int64_t channels_per_stack = 0;
    std::int64_t pseudo_channels = 0;  ///< per channel
    std::int64_t bank_groups = 0;
    std::int64_t banks_per_group = 0;
    std::int64_t ranks = 0;  ///< stack ids
    std::int64_t rows = 0;
    std::int64_t row_bytes = 0;
    std::int64_t burst_bytes = 0;
    std::int64_t granule_bytes = 0;  ///< consecutive bytes of one pseudo-channel
    std::int64_t pseudo_channel_bits = 0;
    std::int64_t bits_per_second_per_pin = 0;
    std::int64_t transfers_per_ck = 0;
    std::int64_t controller_picoseconds = 0;
    std::int64_t phy_picoseconds = 0;
    std::int64_t read_queue = 0, write_queue = 0;  ///< requests of a channel
    std::int64_t write_high = 0, write_low = 0;    ///< requests: a drain of the write queue begins, ends
    std::int64_t prepare = 0;       ///< requests before a turn at which rows are opened for the other direction
    std::int64_t age_limit = 0;     ///< times that the oldest request may be passed over
    std::string page;               ///< "open", "timeout" or "closed"
    std::int64_t page_timeout = 0;  ///< CK
    std::string refresh;            ///< "per_bank", "all_bank" or "none"
    std::int64_t refresh_postponed = 0, refresh_ahead = 0;  ///< intervals of nREFI
    std::string address_map;                                ///< in configs/address_maps/
    HbmTimingSpec timing;
    DramRules rules;     ///< of `memory`
    AddressMapSpec map;  ///< `address_map`
};

struct NetworkSpec {
    std::int64_t anc_count = 0;
    std::int64_t anc_bits_per_second = 0;
    std::int64_t pcie_bytes_per_second = 0;
};

/// What software, not the machine, spends.
struct ScheduleSpec {
    std::int64_t eager_launch_cycles = 0;  ///< before each operator of an eager schedule
};

struct PowerSpec {
    std::int64_t tdp_milliwatts = 0;
    std::int64_t core_millivolts = 0;
    std::string energy_table;  ///< file name in configs/energy/
};

struct ChipSpec {
    std::string name;
    std::string description;
    SocSpec soc;
    ClockSpec clock;
    TtuSpec ttu;
    TvpSpec tvp;
    ReshaperSpec reshaper;
    TsramSpec tsram;
    CsramSpec csram;
    DmaSpec tdma;
    DmaSpec cdma;
    ControlSpec control;
    SemaphoreSpec semaphores;
    NocSpec noc;
    GnocSpec gnoc;
    HbmSpec hbm;
    NetworkSpec network;
    ScheduleSpec schedule;
    PowerSpec power;
};

// Derived figures.
[[nodiscard]] std::int64_t tile_count(const ChipSpec& chip);
[[nodiscard]] std::int64_t k_per_cycle(const TtuSpec& ttu, TensorRate rate);
/// Multiply-accumulates of one TTU per cycle: 32 * 32 * k_per_cycle.
[[nodiscard]] std::int64_t macs_per_cycle(const TtuSpec& ttu, TensorRate rate);
/// Flop/s of all TTUs: 2 * macs_per_cycle * tiles * clock.
[[nodiscard]] double peak_flops(const ChipSpec& chip, TensorRate rate);
[[nodiscard]] Bytes hbm_bytes(const ChipSpec& chip);
[[nodiscard]] double hbm_bytes_per_second(const ChipSpec& chip);
/// HBM bytes per core cycle at peak: 3,500 on maia200.
[[nodiscard]] double hbm_bytes_per_cycle(const ChipSpec& chip);
[[nodiscard]] double seconds(const ChipSpec& chip, Cycle cycles);

}  // namespace sluice::isa
