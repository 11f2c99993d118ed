// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "layout/documents.hpp"
#include "layout/ulid.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

// What travels down the pipeline, and what comes back.

namespace relay::recorder {

class SessionFiles;

// Who waits for a change, and what they will be told. Travels with the change, so nobody has to look
// anything up when it is done.
struct Waiter {
    std::uint64_t connection = 0;  // 0: nobody waits
    std::string id;                // the request's id as JSON text; empty: no answer is wanted
    layout::Ulid session;
    std::int64_t turn = 0;
    std::optional<std::int64_t> seq;
    std::string fields;
    bool duplicate = false;           // recorded before; the ack says so
    std::int64_t inflight_bytes = 0;  // given back to the connection's account
};

// A change on its way: first to the journal, then to the session's own files.
struct WorkItem {
    std::shared_ptr<SessionFiles> files;
    std::string change;        // encoded layout change
    std::uint64_t lsn = 0;     // of the batch that carries it; 0 before the commit
    std::uint64_t number = 0;  // in the order in which its volume was offered them
    bool finishes = false;     // the session needs no open files after this one
    Waiter waiter;
};

enum class Verdict {
    visible,   // durable, and in the session's files
    deferred,  // durable in the journal; the session's disk refuses it for now
    gone,      // the session's directory was deleted or moved away by its user
    failed,    // the journal failed: not recorded
    no_space,  // the journal's disk is full: not recorded
};

struct Outcome {
    Verdict verdict = Verdict::visible;
    Waiter waiter;
    std::string reason;  // a sentence, for everything but `visible`
};

// Something the session's own record should mention.
struct Notice {
    layout::Ulid session;
    std::optional<layout::CaptureConflict> conflict;
    std::optional<layout::CaptureDeferral> deferral;
    bool gone = false;
};

// Hears what became of the work. Called from any of the pipeline's threads, without any lock held.
class PipelineListener {
public:
    PipelineListener() = default;
    virtual ~PipelineListener() = default;
    PipelineListener(const PipelineListener&) = delete;
    PipelineListener& operator=(const PipelineListener&) = delete;

    virtual void settled(std::vector<Outcome> outcomes) = 0;
    virtual void noticed(Notice notice) = 0;
    virtual void checkpointed() {}  // one has ended
    virtual void submitted() {}     // there is something to commit, and there was nothing before
};

}  // namespace relay::recorder
