// SPDX-License-Identifier: Apache-2.0

// A program that does something and has it recorded: every line it reads is a prompt, and its answer is the
// line in upper case.
//
//     c++ -std=c++20 example.cpp $(pkg-config --cflags --libs agent_relay) -o shout
//     printf 'hello\nworld\n' | ./shout && agent-relay show @latest

#include <agent_relay.hpp>
#include <cctype>
#include <iostream>
#include <string>

int main() {
    agent_relay::SessionStart start;
    start.agent = "shout";
    agent_relay::Session session(start);

    for (std::string prompt; std::getline(std::cin, prompt);) {
        session.begin_turn(prompt);
        std::string answer;
        for (const char character : prompt) {
            answer += static_cast<char>(std::toupper(static_cast<unsigned char>(character)));
        }
        std::cout << answer << '\n';
        session.output(answer + "\n");
        session.event("turn.note", R"({"kind":"decision","payload":{"summary":"shout"}})");
        session.end_turn();
    }

    // Everything above went on without waiting for anybody; this waits until it is safe.
    const agent_relay::Delivery end = session.end(0);
    if (!end.recorded) {
        std::cerr << "not recorded yet: " << end.trouble << '\n';
    }
    std::cout << session.id() << '\n';
}
