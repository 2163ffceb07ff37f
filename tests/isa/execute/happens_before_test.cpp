// SPDX-License-Identifier: Apache-2.0
// Are exactly those instructions called unordered that some interleavings of the program run in one order and some in
// the other, or at once? Every interleaving of thousands of tiny programs is gone through to know.
#include "isa/execute/happens_before.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <set>

#include "isa/errors.hpp"
#include "tests/isa/execute/interleavings.hpp"
#include "tests/isa/execute/programs.hpp"

using namespace sluice;
using namespace sluice::isa;
using sluice::test::Interleavings;

namespace {

/// Room for a matrix of 16 x 16 cells where tensor macros may write.
const ChipSpec& chip() {
    static const ChipSpec spec = read_chip("toy", {"tsram.bytes=4MiB", "tsram.output_region_bytes=2MiB"},
                                           std::string(SLUICE_SOURCE_DIR) + "/configs")
                                     .spec;
    return spec;
}

/// Every two instructions get bytes of their own to race on: instruction x reads row x of a square matrix of cells and
/// writes its column x, so that x and y meet in the cells (x, y) and (y, x) and nobody else does. A tensor macro that
/// signals its block rows is a row and a column for each.
class Cells {
public:
    explicit Cells(std::size_t instructions) : count_(static_cast<std::int64_t>(instructions)) {}

    [[nodiscard]] std::string macro(const std::string& queue, std::size_t at, int parts,
                                    const std::string& row_signal) const {
        const std::int64_t row = static_cast<std::int64_t>(at) * count_ * kCell;
        const std::int64_t column = static_cast<std::int64_t>(at) * kCell;
        const std::int64_t down = count_ * kCell;
        if (queue.starts_with("ttu")) {
            const std::string signal = row_signal.empty() ? "" : " row_signal " + row_signal;
            return fmt::format(
                "tensor {} x {} x {} a [{}] strides {} {} e4m3 b [{}] strides 0 0 e4m3 c [{}] strides {} {}{}", parts,
                count_, count_, row, down, kCell, kB, column, kCell, down, signal);
        }
        if (queue.starts_with("tvp")) {
            return fmt::format("vector \"v\" rows {} cols 1 operand [{}] strides {} 0 operand [{}] strides {} 0",
                               count_, row, kCell, column, down);
        }
        return fmt::format("dma tsram(0)[{}] -> tsram(0)[{}] run 1 dim {} strides {} {}", row, column, count_, kCell,
                           down);
    }
    [[nodiscard]] static std::string declarations() {
        return "vector \"v\" { pass rows { v0 = load_row operand 0 e4m3 store_row operand 1 e4m3 v0 } }\n";
    }

private:
    static constexpr std::int64_t kCell = 4096;  ///< a block of sums
    static constexpr std::int64_t kB = 3 << 20;  ///< that all read and nobody writes
    std::int64_t count_;
};

struct Shape {
    bool by_guess = false;         ///< waits and signals at random, else so that one order of execution finishes
    bool one_consumer = false;     ///< of every semaphore
    bool processors_wait = false;  ///< control programs wait and signal too
    bool second_tile = false;      ///< has queues of fences, on semaphores of the first
};

class RandomProgram {
public:
    RandomProgram(std::uint64_t seed, Shape shape) : random_(seed), shape_(shape) {}

    std::string text() {
        const auto semaphores = static_cast<std::size_t>(between(2, 4));
        for (std::size_t i = 0; i < semaphores; ++i) {
            values_.push_back(std::max(0, between(-2, 2)));
            declarations_ += fmt::format("init tile(0)[{}] units 1 value {}\n", i, values_[i]);
        }
        choose_threads();
        choose_instructions();
        consumer_.assign(semaphores, 0);
        for (std::size_t& consumer : consumer_) {
            consumer = pick(threads_.size());
        }
        const Cells cells(nodes_);
        for (const Chosen& chosen : chosen_) {
            write(chosen, cells);
        }
        std::string out = Cells::declarations() + declarations_ + test::tile(bodies_[0] + signals_for_all(semaphores));
        return shape_.second_tile ? out + test::tile(bodies_[1], 1) : out;
    }

private:
    struct ThreadChoice {
        std::string queue;
        std::size_t tile;
    };
    struct Chosen {
        std::size_t thread;
        std::size_t node;
        int parts;
    };

    int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
    bool chance(int percent) { return between(1, 100) <= percent; }
    std::size_t pick(std::size_t count) { return static_cast<std::size_t>(between(0, static_cast<int>(count) - 1)); }

    void choose_threads() {
        std::vector<std::string> queues{"tdma.0", "tdma.1", "tvp.0", "ttu.0"};
        std::shuffle(queues.begin(), queues.end(), random_);
        const int count = between(2, 4);
        for (int i = 0; i < count; ++i) {
            threads_.push_back(
                {queues[static_cast<std::size_t>(i)], shape_.second_tile && i > 0 && chance(40) ? 1U : 0U});
        }
        if (shape_.processors_wait) {
            threads_.push_back({"", 0});
        }
    }
    /// In the order of the text, 2 to 6 a thread, at most ten.
    void choose_instructions() {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < threads_.size(); ++i) {
            const int count = between(2, threads_.size() > 3 ? 3 : 6);
            order.insert(order.end(), static_cast<std::size_t>(count), i);
        }
        std::shuffle(order.begin(), order.end(), random_);
        order.resize(std::min<std::size_t>(order.size(), 10));
        for (const std::size_t thread : order) {
            const bool tensor = threads_[thread].queue == "ttu.0" && threads_[thread].tile == 0;
            const int parts = tensor ? between(1, 2) : 1;
            chosen_.push_back({thread, nodes_, parts});
            nodes_ += threads_[thread].queue.empty() ? 0U : static_cast<std::size_t>(parts);
        }
    }

    std::string sem(std::size_t number, int count) {
        return fmt::format("tile(0)[{}]{}", number, count == 1 ? "" : fmt::format(" x {}", count));
    }
    std::string waits(std::size_t thread, std::size_t most) {
        std::string out;
        std::set<std::size_t> used;
        for (std::size_t i = 0; i < most; ++i) {
            const std::size_t number = pick(values_.size());
            const int count = chance(75) ? 1 : 2;
            const bool possible = shape_.by_guess || values_[number] >= count;
            if (!chance(60) || !possible || (shape_.one_consumer && consumer_[number] != thread) ||
                !used.insert(number).second) {
                continue;
            }
            values_[number] -= count;
            out += "wait " + sem(number, count) + "\n";
        }
        return out;
    }
    std::string signals(std::size_t most) {
        std::string out;
        for (std::size_t i = 0; i < most; ++i) {
            if (chance(60)) {
                const std::size_t number = pick(values_.size());
                const int count = chance(75) ? 1 : 2;
                values_[number] += count;
                out += "signal " + sem(number, count) + "\n";
            }
        }
        return out;
    }

    void write(const Chosen& chosen, const Cells& cells) {
        const ThreadChoice& thread = threads_[chosen.thread];
        std::string& body = bodies_[thread.tile];
        if (thread.queue.empty()) {
            const std::string waited = waits(chosen.thread, 1);
            body += waited.empty() ? signals(1) : waited;
            return;
        }
        const std::string waited = waits(chosen.thread, 2);
        std::string row_signal;
        if (chosen.parts > 1) {
            const std::size_t number = pick(values_.size());
            values_[number] += chosen.parts;
            row_signal = sem(number, 1);
        }
        const std::string macro =
            thread.tile == 1 ? "fence" : cells.macro(thread.queue, chosen.node, chosen.parts, row_signal);
        body += test::issue(thread.queue, fmt::format("x{}", labels_++), waited + macro + "\n" + signals(2));
    }
    /// The verifier wants every semaphore that is waited for to be signalled somewhere.
    static std::string signals_for_all(std::size_t semaphores) {
        std::string out;
        for (std::size_t i = 0; i < semaphores; ++i) {
            out += fmt::format("signal tile(0)[{}] x 0\n", i);
        }
        return out;
    }

    std::mt19937_64 random_;
    Shape shape_;
    std::vector<int> values_;
    std::vector<std::size_t> consumer_;  ///< the thread that alone waits for a semaphore, if there is to be one
    std::vector<ThreadChoice> threads_;
    std::vector<Chosen> chosen_;
    std::size_t nodes_ = 0;
    int labels_ = 0;
    std::string declarations_;
    std::array<std::string, 2> bodies_;
};

/// What check_races says of a program, taken apart.
struct Verdict {
    bool finished = false;
    bool competing_waits = false;
    std::set<std::pair<std::string, std::string>> pairs;  ///< labels, the smaller first
};

/// The text between the first two quotation marks of a line.
std::string quoted(const std::string& text, std::size_t line) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < line; ++i) {
        at = text.find('\n', at) + 1;
    }
    const std::size_t first = text.find('"', at) + 1;
    return text.substr(first, text.find('"', first) - first);
}

Verdict judge(const Program& program, std::uint64_t seed) {
    Memories memories(chip());
    MachineOptions options;
    options.seed = seed;
    options.record_trace = true;
    options.stop_at_unwritten = false;
    Machine machine(program, chip(), memories, options);
    Verdict out;
    try {
        machine.run();
    } catch (const DeadlockError&) {
        return out;
    }
    out.finished = true;
    for (const std::string& race : check_races(program, chip(), machine.trace()).races) {
        if (race.starts_with("race for")) {
            out.competing_waits = true;
        } else {
            out.pairs.insert(std::minmax(quoted(race, 1), quoted(race, 2)));
        }
    }
    return out;
}

std::set<std::pair<std::string, std::string>> unordered_pairs(const Interleavings& all, const Program& program) {
    std::set<std::string> fences;
    for (const ControlProgram& control : program.controls) {
        for (const Statement& statement : control.body) {
            const auto* instruction = std::get_if<Instruction>(&statement.body);
            if (instruction != nullptr && std::holds_alternative<FenceMacro>(instruction->macro)) {
                fences.insert(instruction->label);
            }
        }
    }
    std::set<std::pair<std::string, std::string>> out;
    for (std::size_t a = 0; a < all.instructions(); ++a) {
        for (std::size_t b = a + 1; b < all.instructions(); ++b) {
            if (fences.count(all.label(a)) + fences.count(all.label(b)) == 0 && all.unordered(a, b)) {
                out.insert(std::minmax(all.label(a), all.label(b)));
            }
        }
    }
    return out;
}

/// Of many programs, so that a test is known to have seen both answers to each of its questions.
struct Tally {
    int finished = 0, competing = 0;
    std::size_t ordered_pairs = 0, unordered_pairs = 0;
};

void compare(std::uint64_t seed, const Shape& shape, Tally& tally) {
    const std::string text = RandomProgram(seed, shape).text();
    const Program program = test::unverified(text);
    const Verdict found = judge(program, seed % 3 == 0 ? 0 : seed);
    if (!found.finished) {
        return;
    }
    ++tally.finished;
    const Interleavings all(program);
    INFO("seed " << seed << "\n" << text);
    REQUIRE(all.can_finish());
    CHECK(found.competing_waits == all.waits_compete());
    if (found.competing_waits) {
        ++tally.competing;
        return;  // what is said of pairs then holds for the order of this run alone
    }
    CHECK(!all.can_deadlock());
    const std::set<std::pair<std::string, std::string>> wanted = unordered_pairs(all, program);
    CHECK(found.pairs == wanted);
    tally.unordered_pairs += wanted.size();
    tally.ordered_pairs += all.instructions() * (all.instructions() - 1) / 2 - wanted.size();
}

Tally compare(const Shape& shape, std::uint64_t programs = 800) {
    Tally tally;
    for (std::uint64_t seed = 1; seed <= programs; ++seed) {
        compare(seed, shape, tally);
    }
    CHECK(tally.finished > 100);
    CHECK(tally.unordered_pairs > 200);
    CHECK(tally.ordered_pairs > 200);
    return tally;
}

}  // namespace

TEST_CASE("with one consumer a semaphore, exactly what some interleavings run otherwise is unordered") {
    Shape shape;
    shape.one_consumer = true;
    CHECK(compare(shape).competing == 0);
}

TEST_CASE(
    "with several consumers a semaphore, the same holds and exactly those waits compete that can come otherwise") {
    CHECK(compare(Shape{}).competing > 100);
}

TEST_CASE("control programs that wait and signal order what they issue, exactly") {
    Shape shape;
    shape.processors_wait = true;
    CHECK(compare(shape).competing > 100);
}

TEST_CASE("queues of another tile order those of this one, exactly") {
    Shape shape;
    shape.second_tile = true;
    shape.processors_wait = true;
    shape.one_consumer = true;
    compare(shape);
}

TEST_CASE("of waits and signals at random, those that finish in one interleaving are told from those that always do") {
    Shape shape;
    shape.by_guess = true;
    CHECK(compare(shape, 4000).competing > 100);
}
