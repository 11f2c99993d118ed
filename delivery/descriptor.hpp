// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <utility>

namespace relay::delivery {

// The one owner of a file descriptor. Move-only. The destructor closes and tells nobody, so it is for
// descriptors whose close can lose nothing: pipes, terminals, locks, files that are read or were synced.
class Descriptor {
public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        const int number = other.release();  // first, so that moving into itself closes nothing
        close();
        number_ = number;
        return *this;
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() { close(); }

    [[nodiscard]] int get() const { return number_; }
    [[nodiscard]] bool valid() const { return number_ >= 0; }
    [[nodiscard]] int release() { return std::exchange(number_, -1); }
    void close() {
        if (number_ >= 0) {
            static_cast<void>(::close(std::exchange(number_, -1)));
        }
    }

private:
    int number_ = -1;
};

}  // namespace relay::delivery
