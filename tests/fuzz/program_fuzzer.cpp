// SPDX-License-Identifier: Apache-2.0
// Programs: what can be read is verified without a crash, and is the same after it was written and read again, plainly
// and with its comments.
#include "isa/chip_spec_reader.hpp"
#include "isa/text.hpp"
#include "isa/verifier.hpp"
#include "tests/fuzz/fuzzer.hpp"
#include "tools/comments.hpp"

using namespace sluice;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const isa::ChipSpec kToy = isa::read_chip("toy", {}, std::string(SLUICE_SOURCE_DIR) + "/configs").spec;
    const std::string_view text = fuzz::text_of(data, size);
    isa::Program program;
    if (!fuzz::accepts([&] { program = isa::read_text(text, "input"); })) {
        return 0;
    }
    (void)fuzz::accepts([&] { isa::verify(program, kToy); });
    const std::string written = isa::write_text(program);
    const isa::Program again = isa::read_text(written, "written");
    fuzz::require(again == program, "what was written reads as the same program");
    fuzz::require(isa::write_text(again) == written, "the text of a program is always the same");
    const std::string laid_out = tools::lay_out(text, "input");
    fuzz::require(tools::lay_out(laid_out, "laid out") == laid_out, "a program is laid out once");
    return 0;
}
