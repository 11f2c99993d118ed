// SPDX-License-Identifier: Apache-2.0
#include "cli/screen.hpp"

#include "cli/human_text.hpp"

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

void append_cell(
    std::string& line,
    const Cell& cell,
    Column::Side side,
    std::size_t width,
    const Screen& screen) {
    std::size_t used = columns_of(cell.text);
    std::string cut;
    std::string_view text = cell.text;
    if (used > width) {
        cut = cut_to_columns(cell.text, width);
        text = cut;
        used = columns_of(cut);  // one less than there is room for, before a wide character
    }
    line.append(side == Column::Side::right ? width - used : 0, ' ');
    line += screen.paint(cell.tone, text);
    line.append(side == Column::Side::left ? width - used : 0, ' ');
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

std::string print_table(
    const std::vector<Column>& columns,
    const std::vector<std::vector<Cell>>& rows,
    const Screen& screen) {
    std::vector<std::size_t> shown;  // indices
    std::vector<Column> shown_columns;
    std::vector<std::size_t> widths;
    for (std::size_t at = 0; at < columns.size(); ++at) {
        if (screen.columns != 0 && screen.columns < columns[at].screen_min) {
            continue;
        }
        std::size_t width = columns_of(columns[at].title);
        for (const std::vector<Cell>& row : rows) {
            width = std::max(width, columns_of(row[at].text));
        }
        shown.push_back(at);
        shown_columns.push_back(columns[at]);
        widths.push_back(width);
    }
    widths = fit_widths(shown_columns, std::move(widths), screen.columns);

    std::vector<Cell> titles;
    titles.reserve(columns.size());
    for (const Column& column : columns) {
        titles.push_back({column.title, Tone::dim});
    }
    std::string text;
    const auto add_row = [&](const std::vector<Cell>& row) {
        const std::size_t begin = text.size();
        for (std::size_t at = 0; at < shown.size(); ++at) {
            text += at == 0 ? "" : gap;
            append_cell(text, row[shown[at]], columns[shown[at]].side, widths[at], screen);
        }
        text.resize(std::max(begin, text.find_last_not_of(' ') + 1));
        text += '\n';
    };
    add_row(titles);
    for (const std::vector<Cell>& row : rows) {
        add_row(row);
    }
    return text;
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
        held_.append(bytes, static_cast<std::size_t>(count));
        rows_ += static_cast<std::size_t>(std::count(bytes, bytes + count, '\n'));
        constexpr std::size_t held_max = std::size_t{64} * 1024;
        const bool long_enough = rows_ + 1 >= screen_.rows || held_.size() > held_max;
        if (pipe_ < 0 && !pager_.empty() && long_enough) {
            start();
        }
        if (pager_.empty()) {
            out_ << held_;
            held_.clear();
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
        child_ = ::fork();
        if (child_ == 0) {
            ::dup2(ends[0], STDIN_FILENO);
            ::setenv("LESS", "FRX", /*overwrite=*/0);
            ::execl("/bin/sh", "sh", "-c", pager_.c_str(), static_cast<char*>(nullptr));
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
