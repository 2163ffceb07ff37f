// SPDX-License-Identifier: Apache-2.0
#include "tools/comments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "isa/errors.hpp"
#include "isa/text.hpp"
#include "isa/text_lexer.hpp"

namespace sluice::tools {
namespace {

using isa::Lexer;

/// What stands on one line of the canonical text: a declaration's or statement's first words, a step, or a bracket that
/// closes a block. (`} else {` is two of them.)
struct Element {
    std::string_view word;  ///< that it begins with
    std::size_t at = 0;     ///< where it begins
};

/// A declaration and all in it, or the two lines at the top.
using Declaration = std::vector<Element>;

struct Comment {
    std::string text;          ///< from # to the last character that is no blank
    std::size_t at = 0;        ///< in the original
    bool own_line = true;      ///< nothing stands before it on its line
    std::size_t previous = 0;  ///< where the last word before it begins; of no use if there is none
};

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_numbered(std::string_view word, char letter) {
    return word.size() >= 2 && word[0] == letter && word.find_first_not_of("0123456789", 1) == std::string_view::npos;
}

/// A value may be called v007.
bool begin_alike(std::string_view a, std::string_view b) {
    return a == b || (is_numbered(a, 'v') && is_numbered(b, 'v'));
}

/// Takes the text of a program that can be read apart into its lines-to-be.
class Outline {
public:
    explicit Outline(std::string_view text) {
        Lexer lexer(text, "");
        while (lexer.peek().kind != Lexer::Kind::end) {
            const Lexer::Token token = lexer.next();
            take(token, lexer.peek());
            before_ = token;
        }
    }
    [[nodiscard]] std::vector<Declaration> declarations() const { return declarations_; }

private:
    enum class Inside : std::uint8_t { nothing, vector, pass, control, instruction };

    void take(const Lexer::Token& token, const Lexer::Token& after) {
        const bool is_word = token.kind == Lexer::Kind::word;
        const bool closes = token.kind == Lexer::Kind::punctuation && token.text == "}";
        if (token.kind == Lexer::Kind::punctuation && token.text == "{") {
            blocks_.push_back(inside_of(declarations_.back().back().word));
        } else if (closes || (is_word && begins(token.text, after))) {
            if (blocks_.empty()) {
                declarations_.emplace_back();
            }
            declarations_.back().push_back({token.text, token.at});
        }
        if (closes) {
            blocks_.pop_back();
        }
    }

    [[nodiscard]] Inside inside() const { return blocks_.empty() ? Inside::nothing : blocks_.back(); }
    [[nodiscard]] Inside inside_of(std::string_view word) const {
        switch (inside()) {
            case Inside::nothing: return word == "vector" ? Inside::vector : Inside::control;
            case Inside::vector: return Inside::pass;
            default: return word == "issue" ? Inside::instruction : Inside::control;
        }
    }
    [[nodiscard]] bool begins(std::string_view word, const Lexer::Token& after) const {
        const bool assigned = after.kind == Lexer::Kind::punctuation && is_one_of(after.text, {"=", "+="});
        switch (inside()) {
            case Inside::nothing:
                return is_one_of(word, {"disa", "program", "node", "region", "table", "init", "vector", "control"});
            case Inside::vector: return word == "pass";
            // Of a step that defines a value, `vN`; else the operation, unless it stands behind `vN =`.
            case Inside::pass: return is_numbered(word, 'v') ? assigned : is_operation(word) && before_.text != "=";
            case Inside::control:
                return is_one_of(word, {"issue", "loop", "if", "else", "wait", "signal"}) ||
                       (is_numbered(word, 'r') && assigned);
            case Inside::instruction:
                return is_one_of(word, {"wait", "signal", "fence", "dma", "tensor", "vector", "reshape"});
        }
        return false;
    }
    static bool is_operation(std::string_view word) {
        static const std::set<std::string_view> kOperations = [] {
            std::set<std::string_view> names;
            for (int op = 0; op <= static_cast<int>(isa::VectorOp::block_scale); ++op) {
                names.insert(isa::name(static_cast<isa::VectorOp>(op)));
            }
            return names;
        }();
        return kOperations.contains(word);
    }

    std::vector<Declaration> declarations_;
    std::vector<Inside> blocks_;
    Lexer::Token before_;
};

/// The canonical text writes no `else` without statements: its bracket is the one of the `if`.
Declaration without_empty_else(const Declaration& declaration) {
    Declaration out;
    for (std::size_t i = 0; i < declaration.size(); ++i) {
        const bool empty =
            declaration[i].word == "else" && i + 1 < declaration.size() && declaration[i + 1].word == "}";
        if (empty) {
            ++i;
        } else {
            out.push_back(declaration[i]);
        }
    }
    return out;
}

std::vector<Comment> comments_of(std::string_view text) {
    std::vector<Comment> comments;
    Lexer lexer(text, "");
    std::size_t from = 0;  // after the last word
    std::size_t previous = 0;
    while (true) {
        const Lexer::Token token = lexer.next();
        for (std::size_t at = from; at < token.at; ++at) {
            if (text[at] != '#') {
                continue;
            }
            const std::size_t end = std::min(text.find('\n', at), text.size());
            const std::size_t last = text.substr(at, end - at).find_last_not_of(" \t\r");
            const std::string_view gap = text.substr(from, at - from);
            const bool own_line = from == 0 || gap.find('\n') != std::string_view::npos;
            comments.push_back({std::string(text.substr(at, last + 1)), at, own_line, previous});
            at = end;
        }
        if (token.kind == Lexer::Kind::end) {
            return comments;
        }
        from = token.at + token.text.size();
        previous = token.at;
    }
}

/// Which line of the canonical text each element of the original becomes, by where it begins.
class Lines {
public:
    Lines(std::string_view text, std::string_view canonical) {
        std::map<std::string_view, std::vector<Declaration>> by_kind;
        for (Declaration& declaration : Outline(text).declarations()) {
            by_kind[declaration.front().word].push_back(std::move(declaration));
        }
        std::map<std::string_view, std::size_t> taken;
        line_starts(canonical);
        for (const Declaration& now : Outline(canonical).declarations()) {
            const std::string_view kind = now.front().word;
            const std::vector<Declaration>& all = by_kind[kind];
            SLUICE_CHECK(taken[kind] < all.size(), "a declaration of the new text is one of the original");
            pair(all[taken[kind]++], now);
        }
    }

    /// The line of the element in which, or before which, the byte stands.
    [[nodiscard]] std::size_t containing(std::size_t at) const { return std::prev(lines_.upper_bound(at))->second; }
    [[nodiscard]] std::size_t following(std::size_t at) const {
        const auto found = lines_.lower_bound(at);
        return found == lines_.end() ? starts_.size() : found->second;
    }

private:
    void line_starts(std::string_view text) {
        for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1) {
            starts_.push_back(at);
        }
    }
    void pair(const Declaration& original, const Declaration& canonical) {
        const Declaration kept = without_empty_else(original);
        SLUICE_CHECK(kept.size() == canonical.size(), "the new text has the statements of the original");
        for (std::size_t i = 0; i < kept.size(); ++i) {
            SLUICE_CHECK(begin_alike(kept[i].word, canonical[i].word),
                         "the new text has the statements of the original");
            const auto after = std::upper_bound(starts_.begin(), starts_.end(), canonical[i].at);
            lines_[kept[i].at] = static_cast<std::size_t>(after - starts_.begin()) - 1;
        }
    }

    std::map<std::size_t, std::size_t> lines_;
    std::vector<std::size_t> starts_;
};

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        lines.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return lines;
}

/// What stands in front of a line's own comments; those before a closing bracket belong into its block.
std::string indentation(const std::string& line) {
    const std::size_t blanks = std::min(line.find_first_not_of(' '), line.size());
    return std::string(blanks + (line.substr(blanks).starts_with("}") ? 2 : 0), ' ');
}

}  // namespace

std::string lay_out(std::string_view text, const std::string& source) {
    const isa::Program program = isa::read_text(text, source);
    const std::string canonical = isa::write_text(program);
    const Lines lines(text, canonical);
    std::vector<std::string> content = split(canonical);
    std::vector<std::vector<std::string>> before(content.size() + 1);
    for (const Comment& comment : comments_of(text)) {
        if (comment.own_line) {
            before[lines.following(comment.at)].push_back(comment.text);
        } else {
            content[lines.containing(comment.previous)] += "  " + comment.text;
        }
    }
    std::string out;
    for (std::size_t i = 0; i <= content.size(); ++i) {
        for (const std::string& comment : before[i]) {
            out += (i < content.size() ? indentation(content[i]) : "") + comment + "\n";
        }
        out += i < content.size() ? content[i] + "\n" : "";
    }
    SLUICE_CHECK(isa::read_text(out, source) == program, "a program that is laid out anew is the same program");
    return out;
}

}  // namespace sluice::tools
