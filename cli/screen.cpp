// SPDX-License-Identifier: Apache-2.0
#include "cli/screen.hpp"

#include "cli/human_text.hpp"
#include "cli/side_by_side.hpp"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ostream>
#include <sstream>
#include <streambuf>
#include <utility>

namespace relay::cli {

namespace {

constexpr std::string_view gap = "  ";

std::string_view code_of(Tone tone) {
    constexpr std::array<std::string_view, 8> codes{"", "1", "2", "31", "32", "33", "34", "36"};
    return codes[static_cast<std::size_t>(tone)];
}

std::size_t number_in(const layout::Environment& environment, const char* name) {
    const std::string text = environment(name).value_or("");
    std::size_t number = 0;
    const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failure == std::errc{} && rest == text.data() + text.size() ? number : 0;
}

// Of the columns that are shown: how wide each is drawn.
std::vector<std::size_t> fit_widths(
    const std::vector<Column>& columns, std::vector<std::size_t> widths, std::size_t screen) {
    std::size_t total = 0;
    for (const std::size_t width : widths) {
        total += width + (total == 0 ? 0 : gap.size());
    }
    for (std::size_t at = widths.size(); at-- > 0 && screen > 0 && total > screen;) {
        if (columns[at].columns_min > 0 && widths[at] > columns[at].columns_min) {
            const std::size_t less = std::min(widths[at] - columns[at].columns_min, total - screen);
            widths[at] -= less;
            total -= less;
        }
    }
    return widths;
}

// A column that is shown.
struct Drawn {
    std::size_t index = 0;
    Column::Side side = Column::Side::left;
    std::size_t width = 0;
};

std::vector<Drawn> lay_out(
    const std::vector<Column>& columns,
    const TableRows& titles,
    std::span<const TableRows> parts,
    const Screen& screen) {
    std::vector<std::size_t> widest(columns.size());
    for (std::size_t at = 0; at < columns.size(); ++at) {
        widest[at] = titles.cells()[at].columns;
    }
    for (const TableRows& rows : parts) {
        std::size_t at = 0;
        for (const TableRows::Place& cell : rows.cells()) {
            widest[at] = std::max<std::size_t>(widest[at], cell.columns);
            at = at + 1 == columns.size() ? 0 : at + 1;
        }
    }
    std::vector<Drawn> drawn;
    std::vector<Column> shown;
    std::vector<std::size_t> widths;
    for (std::size_t at = 0; at < columns.size(); ++at) {
        if (screen.columns == 0 || screen.columns >= columns[at].screen_min) {
            drawn.push_back({at, columns[at].side, 0});
            shown.push_back(columns[at]);
            widths.push_back(widest[at]);
        }
    }
    widths = fit_widths(shown, std::move(widths), screen.columns);
    for (std::size_t at = 0; at < drawn.size(); ++at) {
        drawn[at].width = widths[at];
    }
    return drawn;
}

void append_cell(
    std::string& line,
    std::string_view text,
    const TableRows::Place& cell,
    const Drawn& column,
    const Screen& screen) {
    std::size_t used = cell.columns;
    std::string cut;
    if (used > column.width) {
        cut = cut_to_columns(text, column.width);
        text = cut;
        used = columns_of(cut);  // one less than there is room for, before a wide character
    }
    const std::size_t room = column.width - used;
    line.append(column.side == Column::Side::right ? room : 0, ' ');
    if (screen.colours) {
        line += screen.paint(cell.tone, text);
    } else {
        line += text;
    }
    line.append(column.side == Column::Side::left ? room : 0, ' ');
}

std::string draw(
    const TableRows& rows,
    std::size_t columns,
    const std::vector<Drawn>& drawn,
    const Screen& screen) {
    std::size_t width = 1;
    for (const Drawn& column : drawn) {
        width += column.width + gap.size();
    }
    std::string out;
    out.reserve(
        rows.cells().size() / columns * width);  // about: colours and other scripts take more
    std::vector<std::string_view> texts(columns);
    std::string_view rest = rows.text();
    for (std::span<const TableRows::Place> cells = rows.cells(); cells.size() >= columns;
         cells = cells.subspan(columns)) {
        for (std::size_t at = 0; at < columns; ++at) {
            texts[at] = rest.substr(0, cells[at].bytes);
            rest.remove_prefix(cells[at].bytes);
        }
        const std::size_t begin = out.size();
        for (const Drawn& column : drawn) {
            out += out.size() == begin ? "" : gap;
            append_cell(out, texts[column.index], cells[column.index], column, screen);
        }
        while (out.size() > begin && out.back() == ' ') {
            out.pop_back();
        }
        out += '\n';
    }
    return out;
}

// What the user reads pages with; empty: nothing.
std::string pager_of(const Surroundings& surroundings) {
    if (!surroundings.out_is_terminal) {
        return {};
    }
    for (const char* const name : {"AGENT_RELAY_PAGER", "PAGER"}) {
        if (const auto pager = surroundings.environment(name)) {
            return *pager == "cat" ? "" : *pager;
        }
    }
    return "if command -v less >/dev/null 2>&1; then exec less; else exec cat; fi";
}

}  // namespace

std::string Screen::paint(Tone tone, std::string_view text) const {
    if (!colours || tone == Tone::plain || text.empty()) {
        return std::string(text);
    }
    return "\x1b[" + std::string(code_of(tone)) + "m" + std::string(text) + "\x1b[0m";
}

Screen look_at_screen(const Surroundings& surroundings) {
    Screen screen;
    if (!surroundings.out_is_terminal) {
        return screen;
    }
    constexpr std::size_t usual_columns = 80;
    constexpr std::size_t usual_rows = 24;
    const std::string terminal = surroundings.environment("TERM").value_or("");
    screen.colours =
        surroundings.environment("NO_COLOR").value_or("").empty() && terminal != "dumb";
    winsize size{};
    const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    screen.columns = known && size.ws_col > 0 ? size.ws_col : usual_columns;
    screen.rows = known && size.ws_row > 0 ? size.ws_row : usual_rows;
    if (const std::size_t columns = number_in(surroundings.environment, "COLUMNS"); columns > 0) {
        screen.columns = columns;
    }
    return screen;
}

void TableRows::add(std::string_view text, Tone tone) {
    text_ += text;
    cells_.push_back(
        {static_cast<std::uint32_t>(text.size()),
         static_cast<std::uint32_t>(columns_of(text)),
         tone});
}

void print_table(
    std::ostream& out,
    const std::vector<Column>& columns,
    std::span<const TableRows> parts,
    const Screen& screen) {
    TableRows titles;
    for (const Column& column : columns) {
        titles.add(column.title, Tone::dim);
    }
    const std::vector<Drawn> drawn = lay_out(columns, titles, parts, screen);
    out << draw(titles, columns.size(), drawn, screen);
    std::vector<std::string> texts(parts.size());
    side_by_side(parts.size(), worker_count(parts.size(), 1), [&](std::size_t, std::size_t part) {
        texts[part] = draw(parts[part], columns.size(), drawn, screen);
    });
    for (const std::string& text : texts) {
        out << text;
    }
}

std::string print_table(
    const std::vector<Column>& columns,
    const std::vector<std::vector<Cell>>& rows,
    const Screen& screen) {
    TableRows all;
    for (const std::vector<Cell>& row : rows) {
        for (const Cell& cell : row) {
            all.add(cell.text, cell.tone);
        }
    }
    std::ostringstream out;
    print_table(out, columns, std::span(&all, 1), screen);
    return out.str();
}

// Holds back what fits on the screen; what does not starts the pager.
class Pages::Buffer final : public std::streambuf {
public:
    Buffer(std::ostream& out, std::string pager, const Screen& screen)
        : out_(out), pager_(std::move(pager)), screen_(screen) {}
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() override = default;

    void finish() {
        if (pipe_ < 0) {
            out_ << held_;
            out_.flush();
            return;
        }
        write_held();
        // The pager has what was written; a failed close tells it nothing more.
        static_cast<void>(::close(pipe_));
        int status = 0;
        while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
        }
        static_cast<void>(::signal(SIGINT, SIG_DFL));
        static_cast<void>(::signal(SIGPIPE, SIG_DFL));
    }

protected:
    int_type overflow(int_type character) override {
        if (character == traits_type::eof()) {
            return traits_type::not_eof(character);
        }
        const char byte = traits_type::to_char_type(character);
        return xsputn(&byte, 1) == 1 ? character : traits_type::eof();
    }

    std::streamsize xsputn(const char* bytes, std::streamsize count) override {
        if (pager_.empty()) {
            out_.write(bytes, count);
            return count;
        }
        held_.append(bytes, static_cast<std::size_t>(count));
        rows_ += static_cast<std::size_t>(std::count(bytes, bytes + count, '\n'));
        constexpr std::size_t held_max = std::size_t{64} * 1024;
        const bool long_enough = rows_ + 1 >= screen_.rows || held_.size() > held_max;
        if (pipe_ < 0 && !pager_.empty() && long_enough) {
            start();
        }
        if (pager_.empty()) {  // it could not be started
            out_ << std::exchange(held_, {});
        } else if (pipe_ >= 0) {
            write_held();
        }
        return failed_ ? 0 : count;
    }

    int sync() override {
        if (pager_.empty()) {
            out_.flush();
        }
        return failed_ || !out_ ? -1 : 0;
    }

private:
    // Without a pager that can be started the text goes where it would have gone.
    void start() {
        std::array<int, 2> ends{};
        if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
            pager_.clear();
            return;
        }
        out_.flush();
        // Where there is no such program, whose shell says so and reads nothing, the text is shown all the same.
        const std::string command = pager_ + "\n[ $? != 127 ] || exec cat";
        child_ = ::fork();
        if (child_ == 0) {
            ::dup2(ends[0], STDIN_FILENO);
            ::setenv("LESS", "FRX", /*overwrite=*/0);
            ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
            ::_exit(127);
        }
        static_cast<void>(::close(ends[0]));
        if (child_ < 0) {
            static_cast<void>(::close(ends[1]));
            pager_.clear();
            return;
        }
        // Ctrl-C is for the pager; whoever leaves it closes the pipe, which makes the stream bad.
        static_cast<void>(::signal(SIGINT, SIG_IGN));
        static_cast<void>(::signal(SIGPIPE, SIG_IGN));
        pipe_ = ends[1];
    }

    void write_held() {
        std::size_t done = 0;
        while (done < held_.size() && !failed_) {
            const ssize_t count = ::write(pipe_, held_.data() + done, held_.size() - done);
            failed_ = count < 0 && errno != EINTR;
            done += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
        }
        held_.clear();
    }

    std::ostream& out_;
    std::string pager_;  // empty: none
    Screen screen_;
    std::string held_;
    std::size_t rows_ = 0;
    int pipe_ = -1;
    pid_t child_ = -1;
    bool failed_ = false;
};

struct Pages::State {
    Buffer buffer;
    std::ostream out;
    Surroundings surroundings;

    explicit State(const Surroundings& outer)
        : buffer(outer.out, pager_of(outer), look_at_screen(outer)),
          out(&buffer),
          surroundings{
              outer.environment, out, outer.err, outer.out_is_terminal, outer.err_is_terminal} {}
};

Pages::Pages(const Surroundings& surroundings) : state_(std::make_unique<State>(surroundings)) {
}

Pages::~Pages() {
    state_->buffer.finish();
}

const Surroundings& Pages::surroundings() const {
    return state_->surroundings;
}

}  // namespace relay::cli
