// SPDX-License-Identifier: Apache-2.0
#include "isa/text_lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "isa/errors.hpp"

namespace sluice::isa {

namespace {

bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

}  // namespace

Lexer::Lexer(std::string_view text, std::string source) : text_(text), source_(std::move(source)) {
    advance();
}

Lexer::Token Lexer::next() {
    const Token token = token_;
    advance();
    return token;
}

bool Lexer::at(std::string_view text) const {
    return (token_.kind == Kind::word || token_.kind == Kind::punctuation) && token_.text == text;
}

bool Lexer::accept(std::string_view text) {
    if (!at(text)) {
        return false;
    }
    advance();
    return true;
}

void Lexer::expect(std::string_view text) {
    if (!accept(text)) {
        fail(fmt::format("`{}`", text));
    }
}

std::string Lexer::word(const char* what) {
    if (token_.kind != Kind::word) {
        fail(what);
    }
    return std::string(next().text);
}

std::string Lexer::string(const char* what) {
    if (token_.kind != Kind::string) {
        fail(fmt::format("{} in double quotes", what));
    }
    const Token token = next();
    try {
        return nlohmann::json::parse(token.text).get<std::string>();
    } catch (const nlohmann::json::exception&) {
        fail_at(token.at, "this string has an escape that is not known, or is not UTF-8");
    }
}

std::uint64_t Lexer::unsigned_integer(const char* what) {
    if (token_.kind != Kind::number) {
        fail(what);
    }
    const Token token = next();
    const bool hex = token.text.starts_with("0x");
    const char* first = token.text.data() + (hex ? 2 : 0);
    const char* last = token.text.data() + token.text.size();
    std::uint64_t value = 0;
    const auto result = std::from_chars(first, last, value, hex ? 16 : 10);
    if (result.ec != std::errc() || result.ptr != last) {
        fail_at(token.at, fmt::format("{} must be a whole number below 2^64", what));
    }
    return value;
}

std::int64_t Lexer::integer(const char* what, std::int64_t lowest, std::int64_t highest) {
    const std::size_t at = token_.at;
    const bool negative = accept("-");
    const std::uint64_t magnitude = unsigned_integer(what);
    const auto limit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    const std::int64_t value = magnitude > limit ? lowest - 1
                               : negative        ? -static_cast<std::int64_t>(magnitude)
                                                 : static_cast<std::int64_t>(magnitude);
    if (magnitude > limit || value < lowest || value > highest) {
        fail_at(at, lowest == highest ? fmt::format("{} must be {}", what, lowest)
                                      : fmt::format("{} must lie in {}..{}", what, lowest, highest));
    }
    return value;
}

double Lexer::real(const char* what) {
    const std::size_t at = token_.at;
    const bool negative = accept("-");
    if (token_.kind != Kind::fraction && token_.kind != Kind::number) {
        fail(what);
    }
    const Token token = next();
    double value = 0;
    const char* last = token.text.data() + token.text.size();
    const auto result = std::from_chars(token.text.data(), last, value);
    if (result.ec != std::errc() || result.ptr != last || !std::isfinite(value)) {
        fail_at(at, fmt::format("{} must be a finite number", what));
    }
    return negative ? -value : value;
}

void Lexer::fail(const std::string& expected) const {
    std::string found =
        token_.kind == Kind::end ? "the end of the file" : fmt::format("`{}`", token_.text.substr(0, 40));
    fail_at(token_.at, fmt::format("expected {}, found {}", expected, found));
}

void Lexer::fail_at(std::size_t at, const std::string& message) const {
    const auto line_number = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    const std::size_t before = at == 0 ? std::string_view::npos : text_.rfind('\n', at - 1);
    const std::size_t start = before == std::string_view::npos ? 0 : before + 1;
    const std::size_t column = at - start;
    constexpr std::size_t kShown = 120;
    const std::size_t from = column > kShown ? column - kShown / 2 : 0;
    std::string line(
        text_.substr(start + from, std::min(text_.find('\n', start), text_.size()) - start - from).substr(0, kShown));
    std::replace_if(
        line.begin(), line.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    throw InputError(fmt::format("{}:{}:{}", source_, line_number, column + 1),
                     fmt::format("{}\n  {}\n  {}^", message, line, std::string(column - from, ' ')));
}

void Lexer::skip_blank() {
    while (next_ < text_.size()) {
        const char c = text_[next_];
        if (c == '#') {
            while (next_ < text_.size() && text_[next_] != '\n') {
                ++next_;
            }
        } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
            ++next_;
        } else {
            return;
        }
    }
}

void Lexer::advance() {
    skip_blank();
    const std::size_t start = next_;
    const auto take = [&](Kind kind, std::size_t length) {
        token_ = {kind, text_.substr(start, length), start};
        next_ = start + length;
    };
    const auto span = [&](const auto& belongs) {
        std::size_t end = start;
        while (end < text_.size() && belongs(text_[end])) {
            ++end;
        }
        return end - start;
    };
    if (start == text_.size()) {
        take(Kind::end, 0);
    } else if (is_letter(text_[start])) {
        take(Kind::word, span([](char c) { return is_letter(c) || is_digit(c); }));
    } else if (is_digit(text_[start])) {
        // 1..2 is a number, two dots, a number; 1.5 and 1e-05 are fractions.
        std::size_t end = start;
        bool fraction = false;
        const bool hex = text_.substr(start).starts_with("0x");
        while (end < text_.size()) {
            const char c = text_[end];
            const bool dot = c == '.' && end + 1 < text_.size() && is_digit(text_[end + 1]);
            const bool sign = (c == '-' || c == '+') && !hex && (text_[end - 1] == 'e' || text_[end - 1] == 'E');
            if (!(is_letter(c) || is_digit(c) || dot || (sign && end > start))) {
                break;
            }
            fraction = fraction || dot || (!hex && (c == 'e' || c == 'E'));
            ++end;
        }
        take(fraction ? Kind::fraction : Kind::number, end - start);
    } else if (text_[start] == '"') {
        std::size_t end = start + 1;
        while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') {
            end += text_[end] == '\\' && end + 1 < text_.size() ? 2 : 1;
        }
        if (end >= text_.size() || text_[end] != '"') {
            fail_at(start, "this string does not end on its line");
        }
        take(Kind::string, end + 1 - start);
    } else {
        const std::string_view rest = text_.substr(start);
        const bool two =
            rest.starts_with("->") || rest.starts_with(">=") || rest.starts_with("..") || rest.starts_with("+=");
        take(Kind::punctuation, two ? 2 : 1);
    }
}

}  // namespace sluice::isa
