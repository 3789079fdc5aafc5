#ifndef TUTTI_TOOLS_LAUNCH_LAUNCH_OUTPUT_H_
#define TUTTI_TOOLS_LAUNCH_LAUNCH_OUTPUT_H_

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "tools/base/console.h"
#include "tools/launch/process_group.h"

namespace tutti {

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
