#ifndef TUTTI_TOOLS_LAUNCH_LAUNCH_OUTPUT_H_
#define TUTTI_TOOLS_LAUNCH_LAUNCH_OUTPUT_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "framework/base/mutex.h"
#include "tools/base/console.h"
#include "tools/launch/process_group.h"
#include "tutti/cluster_runtime.h"
#include "tutti/environment.h"

namespace tutti {

// Whether a WaitingNote printed the line. `line` has no newline.
bool IsWaitingNote(absl::string_view line);

// Prints on standard error which tasks this task waits for, and for how long it
// will wait. Prints first after two seconds, since most clusters start sooner,
// then every ten.
//
// Thread-safe. `clock` and `console` outlive the object.
class WaitingNote : public std::enable_shared_from_this<WaitingNote> {
 public:
  static std::shared_ptr<WaitingNote> Create(const ClusterSpec& cluster,
                                             absl::Duration start_timeout,
                                             Clock* clock,
                                             const Console& console);

  // Tasks still awaited. An empty list ends the wait.
  void SetMissing(const std::vector<int>& tasks) ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the wait: the object prints nothing afterwards.
  void End() { SetMissing({}); }

 private:
  WaitingNote(const ClusterSpec& cluster, absl::Duration start_timeout,
              Clock* clock, const Console& console)
      : cluster_(cluster),
        start_timeout_(start_timeout),
        clock_(clock),
        console_(console) {}

  void SayAfter(absl::Duration delay);
  void Say() ABSL_LOCKS_EXCLUDED(mu_);

  const ClusterSpec cluster_;
  const absl::Duration start_timeout_;
  Clock* const clock_;
  const Console& console_;
  Mutex mu_;
  std::vector<int> missing_ ABSL_GUARDED_BY(mu_);
};

// Merges the output of the tasks of `tutti launch` on one console. Lines begin
// with the task, "[2] ". Standard output of task 0 is the result of the whole
// run and passes unchanged. A line without a newline gets one when another task
// writes. Only one task's waiting notes pass, since all tasks print the same
// ones.
class LaunchOutput {
 public:
  LaunchOutput(const Console& console, int num_tasks)
      : console_(console), tasks_(num_tasks) {}

  // For ProcessGroup::Options::on_output.
  void Add(int task, ProcessGroup::Stream stream, absl::string_view piece);

  // False after a write to the console failed.
  bool may_go_on() const { return console_.out.good() && console_.err.good(); }

  // Ends the last line of standard error if it has no newline.
  void Finish();

  // Reason why a task failed: the last line on its standard error that begins
  // with "tutti: ", without this prefix; else the last line there; empty if
  // there is none.
  const std::string& ErrorOf(int task) const;

 private:
  struct Task {
    std::string last_error;
    std::string last_line;
  };

  void Print(int task, ProcessGroup::Stream stream, absl::string_view piece);
  void Remember(int task, absl::string_view line);

  const Console console_;
  std::vector<Task> tasks_;
  // Task whose line has no newline yet, by stream.
  std::array<std::optional<int>, 2> open_;
  std::optional<int> waiting_;  // Task whose waiting notes pass.
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_LAUNCH_OUTPUT_H_
