// SPDX-License-Identifier: Apache-2.0
// What must fit together in a machine, beyond the range of each field.
#include <fmt/format.h>

#include <algorithm>

#include "isa/chip_spec_reader.hpp"
#include "isa/errors.hpp"

namespace sluice::isa {
namespace {

class Checker {
public:
    Checker(const ChipSpec& chip, const std::function<std::string(const std::string&)>& origin)
        : chip_(chip), origin_(origin) {}

    void check_all() const {
        check_soc();
        check_engines();
        check_sram("tsram", chip_.tsram.bytes, chip_.tsram.banks, chip_.tsram.bank_bytes_per_cycle);
        check_sram("csram", chip_.csram.bytes, chip_.csram.banks, chip_.csram.bank_bytes_per_cycle);
        check_packets();
        check_hbm_geometry();
        check_hbm_timing();
    }

private:
    void require(bool holds, const std::string& path, std::int64_t found, const std::string& allowed) const {
        if (!holds) {
            throw InputError(origin_(path), fmt::format("found {}, allowed: {}", found, allowed));
        }
    }

    void check_soc() const {
        const SocSpec& soc = chip_.soc;
        require(soc.tiles_per_cluster <= soc.tiles_per_cluster_physical, "soc.tiles_per_cluster", soc.tiles_per_cluster,
                fmt::format("at most soc.tiles_per_cluster_physical ({})", soc.tiles_per_cluster_physical));
        require(
            soc.disabled_slot <= soc.tiles_per_cluster, "soc.disabled_slot", soc.disabled_slot,
            fmt::format("at most soc.tiles_per_cluster ({}), so that all disabled slots exist", soc.tiles_per_cluster));
        // Addresses keep 8 bits for the unit.
        require(tile_count(chip_) <= 256, "soc.clusters", soc.clusters,
                fmt::format("at most 256 tiles on a chip, and there are {} in a cluster", soc.tiles_per_cluster));
    }

    void check_engines() const {
        const TtuSpec& ttu = chip_.ttu;
        for (const auto& [path, k] : {std::pair{"ttu.k_per_cycle_fp4", ttu.k_per_cycle_fp4},
                                      std::pair{"ttu.k_per_cycle_fp6", ttu.k_per_cycle_fp6},
                                      std::pair{"ttu.k_per_cycle_fp8", ttu.k_per_cycle_fp8},
                                      std::pair{"ttu.k_per_cycle_bf16", ttu.k_per_cycle_bf16}}) {
            require(k % kBlockEdge == 0 || kBlockEdge % k == 0, path, k, "a divisor or a multiple of 32");
        }
        require(chip_.tvp.lanes_32b <= chip_.tvp.lanes_16b, "tvp.lanes_32b", chip_.tvp.lanes_32b,
                fmt::format("at most tvp.lanes_16b ({})", chip_.tvp.lanes_16b));
    }

    void check_sram(const std::string& name, std::int64_t bytes, std::int64_t banks, std::int64_t width) const {
        require(width % static_cast<std::int64_t>(kBeatBytes) == 0, name + ".bank_bytes_per_cycle", width,
                "a multiple of 32");
        require(bytes % (banks * width) == 0, name + ".bytes", bytes,
                fmt::format("a multiple of {0}.banks x {0}.bank_bytes_per_cycle ({1})", name, banks * width));
    }

    void check_packets() const {
        const std::int64_t packet = chip_.noc.packet_bytes;
        require(packet == chip_.hbm.granule_bytes, "noc.packet_bytes", packet,
                fmt::format("hbm.granule_bytes ({}), for a packet never crosses a granule", chip_.hbm.granule_bytes));
        require(chip_.tdma.max_inflight_bytes >= packet, "tdma.max_inflight_bytes", chip_.tdma.max_inflight_bytes,
                fmt::format("at least noc.packet_bytes ({})", packet));
        require(chip_.cdma.max_inflight_bytes >= packet, "cdma.max_inflight_bytes", chip_.cdma.max_inflight_bytes,
                fmt::format("at least noc.packet_bytes ({})", packet));
        const TsramSpec& tsram = chip_.tsram;
        require(tsram.output_region_bytes <= tsram.bytes, "tsram.output_region_bytes", tsram.output_region_bytes,
                fmt::format("at most tsram.bytes ({})", tsram.bytes));
        require(tsram.output_region_bytes % 4'096 == 0, "tsram.output_region_bytes", tsram.output_region_bytes,
                "a multiple of 4096, a 32 x 32 block of FP32");
    }

    void check_hbm_geometry() const {
        const HbmSpec& hbm = chip_.hbm;
        require(8 * hbm.burst_bytes == hbm.pseudo_channel_bits * hbm.transfers_per_ck * hbm.timing.nbl,
                "hbm.pseudo_channel_bits", hbm.pseudo_channel_bits,
                fmt::format("pins that carry {} bits in hbm.timing.nbl ({}) CK of {} transfers", 8 * hbm.burst_bytes,
                            hbm.timing.nbl, hbm.transfers_per_ck));
        require(hbm.granule_bytes % hbm.burst_bytes == 0, "hbm.granule_bytes", hbm.granule_bytes,
                fmt::format("a multiple of a burst ({})", hbm.burst_bytes));
        require(hbm.row_bytes % hbm.burst_bytes == 0, "hbm.row_bytes", hbm.row_bytes,
                fmt::format("a multiple of a burst ({})", hbm.burst_bytes));
        require(hbm.granule_bytes / hbm.burst_bytes <= 255, "hbm.granule_bytes", hbm.granule_bytes,
                fmt::format("at most 255 bursts of {}", hbm.burst_bytes));
        // The memory model keeps sets of banks in 64 bits.
        require(hbm.bank_groups * hbm.banks_per_group * hbm.ranks <= 64, "hbm.banks_per_group", hbm.banks_per_group,
                fmt::format("at most 64 banks in a pseudo-channel, over hbm.bank_groups ({}) and hbm.ranks ({})",
                            hbm.bank_groups, hbm.ranks));
        require(hbm.stacks * hbm.channels_per_stack * hbm.pseudo_channels <= 65'535, "hbm.stacks", hbm.stacks,
                "at most 65535 pseudo-channels in all");
        constexpr Bytes kAddressable = Bytes{1} << 40;
        require(hbm_bytes(chip_) <= kAddressable, "hbm.rows", hbm.rows,
                fmt::format("at most 2^40 bytes in all, and there are {}", hbm_bytes(chip_)));
    }

    void check_hbm_timing() const {
        const HbmTimingSpec& timing = chip_.hbm.timing;
        const auto at_least = [this](const char* path, std::int64_t value, const char* other, std::int64_t bound) {
            require(value >= bound, fmt::format("hbm.timing.{}", path), value,
                    fmt::format("at least hbm.timing.{} ({})", other, bound));
        };
        at_least("nrc", timing.nrc, "nras", timing.nras);
        at_least("nccdl", timing.nccdl, "nccds", timing.nccds);
        at_least("nrrdl", timing.nrrdl, "nrrds", timing.nrrds);
        at_least("nfaw", timing.nfaw, "nrrds", timing.nrrds);
        at_least("nwtrl", timing.nwtrl, "nwtrs", timing.nwtrs);
        at_least("nccds", timing.nccds, "nbl", timing.nbl);
        check_controller();
        check_refresh();
    }

    void check_controller() const {
        const HbmSpec& hbm = chip_.hbm;
        require(hbm.write_high <= hbm.write_queue, "hbm.write_high", hbm.write_high,
                fmt::format("at most hbm.write_queue ({})", hbm.write_queue));
        require(hbm.write_low < hbm.write_high, "hbm.write_low", hbm.write_low,
                fmt::format("less than hbm.write_high ({})", hbm.write_high));
    }

    void check_refresh() const {
        const HbmSpec& hbm = chip_.hbm;
        const HbmTimingSpec& t = hbm.timing;
        const std::int64_t banks = hbm.ranks * hbm.bank_groups * hbm.banks_per_group;
        // What a request needs between two refreshes, or its rows would be closed for ever before it is served: its
        // banks closed, opened one after the other, and a burst of each.
        const std::int64_t recovery = std::max(t.nrtp, t.ncwl + t.nbl + t.nwr);
        const std::int64_t visit = t.nrp + t.nfaw + hbm.bank_groups * std::max(t.nrrds, t.nrrdl) +
                                   std::max(t.nrcdrd, t.nrcdwr) + hbm.bank_groups * t.nccdl + recovery;
        const std::string parts = fmt::format(
            "{} for a visit to a row of every bank group (nrp, nfaw, nrrdl, nrcdrd or nrcdwr, nccdl, nrtp or ncwl + "
            "nbl + nwr)",
            visit);
        if (hbm.refresh == "all_bank") {
            require(t.nrefi > t.nrfc + visit, "hbm.timing.nrefi", t.nrefi,
                    fmt::format("more than {}: nrfc, and {}", t.nrfc + visit, parts));
        } else if (hbm.refresh == "per_bank") {
            // The banks of a granule are refreshed one after the other, at worst evenly spread over the interval; the
            // visit has to fit between two of them, each of which may first have to close its bank.
            const std::int64_t between = t.nrfcpb + recovery + t.nrp + visit;
            const std::int64_t needed = std::max(banks * t.nrrefd, hbm.bank_groups * between);
            require(t.nrefi > needed, "hbm.timing.nrefi", t.nrefi,
                    fmt::format("more than {}: {} banks x nrrefd; {} bank groups x {}: nrfcpb, nrp and nrtp or ncwl + "
                                "nbl + nwr before it, and {}",
                                needed, banks, hbm.bank_groups, between, parts));
        }
    }

    const ChipSpec& chip_;
    const std::function<std::string(const std::string&)>& origin_;
};

}  // namespace

void check_chip(const ChipSpec& chip, const std::function<std::string(const std::string&)>& origin) {
    Checker(chip, origin).check_all();
}

}  // namespace sluice::isa
