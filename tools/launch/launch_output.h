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

// What the tasks of `tutti launch` write, on one console. Lines begin with the
// task, "[2] ", but what task 0 writes to its standard output, which is the
// result of the whole: that passes unchanged. A line that lacks its newline
// gets one when somebody else writes. Of the notes that say for whom a task
// waits, only those of one task pass: they say the same.
class LaunchOutput {
 public:
  LaunchOutput(const Console& console, int num_tasks)
      : console_(console), tasks_(num_tasks) {}

  // As ProcessGroup::Options::on_output.
  void Add(int task, ProcessGroup::Stream stream, absl::string_view piece);

  // False once the console could not be written.
  bool may_go_on() const { return console_.out.good() && console_.err.good(); }

  // Ends a last line of errors that has no newline.
  void Finish();

  // Why a task that failed did: the last error in the words of this tool, on
  // its standard error, without the "tutti: "; else the last line there; empty
  // if there is none.
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
  // By stream: whose line has no newline yet.
  std::array<std::optional<int>, 2> open_;
  std::optional<int> waiting_;  // Whose notes pass: the first to say one.
};

}  // namespace tutti

#endif  // TUTTI_TOOLS_LAUNCH_LAUNCH_OUTPUT_H_
