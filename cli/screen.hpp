// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cli/command_line.hpp"

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

// What a command shows to a person: colours, columns, pages.

namespace relay::cli {

enum class Tone { plain, bold, dim, red, green, yellow, blue, cyan };

// What `out` is able to show. Not a terminal: no colours and no bounds.
struct Screen {
    bool colours = false;
    std::size_t columns = 0;  // 0: as many as it takes
    std::size_t rows = 0;     // likewise

    [[nodiscard]] std::string paint(Tone tone, std::string_view text) const;
};

// Colours only on a terminal, never with NO_COLOR or TERM=dumb. $COLUMNS goes before what the terminal says.
[[nodiscard]] Screen look_at_screen(const Surroundings& surroundings);

struct Column {
    std::string title;
    enum class Side { left, right } side = Side::left;
    std::size_t columns_min = 0;  // it may be cut down to these; 0: never cut
    std::size_t screen_min = 0;   // left out on narrower screens
};

struct Cell {
    std::string text;  // harmless already
    Tone tone = Tone::plain;
};

// Rows of a table in few pieces of memory, for tables of very many. One thread at a time.
class TableRows {
public:
    // The next cell of the row, harmless already; a row is full with a cell for each column.
    void add(std::string_view text, Tone tone = Tone::plain);

    struct Place {
        std::uint32_t bytes = 0;
        std::uint32_t columns = 0;
        Tone tone = Tone::plain;
    };
    [[nodiscard]] std::string_view text() const { return text_; }  // of all cells
    [[nodiscard]] std::span<const Place> cells() const { return cells_; }

private:
    std::string text_;
    std::vector<Place> cells_;
};

// Rows under titles, as wide as the screen at most: columns that may be cut give way, the last one first. The parts
// are one table; several threads draw them.
void print_table(
    std::ostream& out,
    const std::vector<Column>& columns,
    std::span<const TableRows> parts,
    const Screen& screen);
[[nodiscard]] std::string print_table(
    const std::vector<Column>& columns,
    const std::vector<std::vector<Cell>>& rows,
    const Screen& screen);

// Passes on what is written to it; what is longer than the screen goes through a pager instead. That is
// $AGENT_RELAY_PAGER, else $PAGER, else less; "cat" or an empty value means none, and so does an `out` that
// is no terminal. The destructor waits until the user has left the pager.
class Pages {
public:
    explicit Pages(const Surroundings& surroundings);
    Pages(const Pages&) = delete;
    Pages& operator=(const Pages&) = delete;
    ~Pages();

    // The surroundings of what is to be paged. Valid as long as this object.
    [[nodiscard]] const Surroundings& surroundings() const;

private:
    class Buffer;
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace relay::cli
