// SPDX-License-Identifier: Apache-2.0
#pragma once
// The three kinds of failure. Libraries throw; only `main` turns them into an exit code:
// InputError 2 (the user's input is wrong), InvariantError 3 (our bug), DeadlockError 4.
#include <stdexcept>
#include <string>

namespace sluice {

/// The user's input is wrong. `where` names the place (a file and key path, a flag, a program line).
class InputError : public std::runtime_error {
public:
    InputError(const std::string& where, const std::string& what)
        : std::runtime_error(where.empty() ? what : where + ": " + what) {}
};

/// An invariant of the simulator is broken.
class InvariantError : public std::logic_error {
public:
    using std::logic_error::logic_error;
};

/// The program can make no progress; `what()` lists who waits for whom.
class DeadlockError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

[[noreturn]] void fail_check(const char* file, int line, const char* condition, const std::string& message);

}  // namespace sluice

/// Always-on invariant check; the message names the component path and the cycle where it can.
#define SLUICE_CHECK(condition, message)                                     \
    do {                                                                     \
        if (!(condition)) {                                                  \
            ::sluice::fail_check(__FILE__, __LINE__, #condition, (message)); \
        }                                                                    \
    } while (false)
