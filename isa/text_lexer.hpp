// SPDX-License-Identifier: Apache-2.0
#pragma once
// Words of the text form: names, whole numbers (decimal or 0x), decimal fractions, "strings", and punctuation. `#`
// starts a comment that runs to the end of the line.
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::isa {

class Lexer {
public:
    enum class Kind : std::uint8_t { end, word, number, fraction, string, punctuation };
    struct Token {
        Kind kind = Kind::end;
        std::string_view text;  ///< as it stands in the source
        std::size_t at = 0;     ///< byte offset
    };

    Lexer(std::string_view text, std::string source);

    [[nodiscard]] const Token& peek() const { return token_; }
    Token next();
    /// The next token is this word or punctuation.
    [[nodiscard]] bool at(std::string_view text) const;
    bool accept(std::string_view text);
    void expect(std::string_view text);
    std::string word(const char* what);
    std::string string(const char* what);
    /// A whole number, with an optional minus, within [lowest, highest].
    std::int64_t integer(const char* what, std::int64_t lowest, std::int64_t highest);
    std::uint64_t unsigned_integer(const char* what);
    double real(const char* what);

    [[noreturn]] void fail(const std::string& expected) const;
    [[noreturn]] void fail_at(std::size_t at, const std::string& message) const;

private:
    void advance();
    void skip_blank();

    std::string_view text_;
    std::string source_;
    std::size_t next_ = 0;
    Token token_;
};

}  // namespace sluice::isa
