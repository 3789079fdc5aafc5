#ifndef TUTTI_TOOLS_FILES_OUTPUT_FILE_H_
#define TUTTI_TOOLS_FILES_OUTPUT_FILE_H_

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tools/base/on_interrupt.h"
#include "tools/files/output_files.h"

namespace tutti {

// Writes one file as OutputFiles does: the file appears whole or not at all,
// even if the process is interrupted. A link stays, and its target is written.
// Errors name the file, or the obstacle. For one thread; only one object at a
// time, as OnInterrupt requires.
class OutputFile {
 public:
  // Looks for obstacles before the caller spends time on the content, and makes
  // missing directories. If nothing is written, the destructor removes these
  // directories. Errors: also for a file that a process has open
  // ("/dev/stdout"), and for the file that is standard output or error, whose
  // content would be lost.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(
      const std::string& path);

  // Call once.
  absl::Status Write(absl::string_view content);

 private:
  OutputFile(std::string name, std::unique_ptr<OutputFiles> files)
      : name_(std::move(name)),
        files_(std::move(files)),
        on_interrupt_([this] { files_->Discard(); }) {}

  // `path` is no link.
  static absl::StatusOr<std::unique_ptr<OutputFile>> Open(
      const std::filesystem::path& path);

  const std::string name_;
  const std::unique_ptr<OutputFiles> files_;
  const OnInterrupt on_interrupt_;
};

// Creates the OutputFile and writes it.
absl::Status WriteOutputFile(const std::string& path,
                             absl::string_view content);

}  // namespace tutti

#endif  // TUTTI_TOOLS_FILES_OUTPUT_FILE_H_
