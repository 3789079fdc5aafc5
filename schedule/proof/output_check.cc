#include "schedule/proof/output_check.h"

#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "framework/base/status_macros.h"

namespace tutti {
namespace {

std::vector<int> Inverse(absl::Span<const int> permutation) {
  std::vector<int> inverse(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) {
    inverse[permutation[i]] = static_cast<int>(i);
  }
  return inverse;
}

std::string InputText(int rank, int chunk) {
  return absl::StrCat(ToString(Input(chunk)), " of rank ", rank);
}

class OutputChecker {
 public:
  OutputChecker(const GroupMemory& memory, absl::Span<const int> permutation,
                bool in_rank_order, const SymbolicRun& run)
      : memory_(memory),
        source_of_(Inverse(permutation)),
        in_rank_order_(in_rank_order),
        run_(run) {}

  absl::Status Check() {
    for (int rank = 0; rank < memory_.num_ranks; ++rank) {
      for (int chunk = 0; chunk < memory_.num_chunks; ++chunk) {
        if (!memory_.OutputHas(rank, chunk)) continue;
        RETURN_IF_ERROR(CheckOutput(rank, chunk));
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Source {
    int rank;
    int chunk;
  };

  // Returns the rank and input chunk that must end in this chunk. For
  // collectives that do not reduce.
  Source SourceOf(int rank, int chunk) const {
    if (InputIsOwnBlock(memory_.type)) return {chunk / memory_.pieces(), chunk};
    if (ExchangesBlocks(memory_.type)) return {/*rank=*/chunk, /*chunk=*/rank};
    const bool has_root = source_of_.empty();
    return {has_root ? memory_.root : source_of_[rank], chunk};
  }

  absl::Status CheckOutput(int rank, int chunk) {
    const ExpressionId id = run_.outputs[rank][chunk];
    const auto wrong = [rank, chunk](absl::string_view what) {
      return absl::InvalidArgumentError(
          absl::StrCat("wrong output: ", ToString(Data(chunk)), " of rank ",
                       rank, " ", what));
    };
    if (id == kUndefined) return wrong("was never written");
    const std::string what = Reduces(memory_.type)
                                 ? WrongReduction(id, rank, chunk)
                                 : WrongMove(id, SourceOf(rank, chunk));
    return what.empty() ? absl::OkStatus() : wrong(what);
  }

  // Checks below return the mistake, or "".
  std::string WrongMove(ExpressionId id, Source source) const {
    const Expression& found = run_.expressions[id];
    if (found.kind == ExpressionKind::kFinish) {
      return "had the final op applied, but nothing is reduced";
    }
    if (found.kind == ExpressionKind::kReduce) {
      return "was reduced, but is to be moved only";
    }
    if (found.rank == source.rank && found.chunk == source.chunk) return "";
    return absl::StrCat("holds ", InputText(found.rank, found.chunk),
                        "; wants ", InputText(source.rank, source.chunk));
  }

  // Checks each result once, because ranks share most results. A result is
  // never right for two chunks, nor for two numbers of contributions.
  std::string WrongReduction(ExpressionId id, int rank, int chunk) {
    const int wanted = NumReduced(memory_.type, rank, memory_.num_ranks);
    const std::tuple<ExpressionId, int, int> result = {id, chunk, wanted};
    if (right_.contains(result)) return "";
    std::string what = WrongFinish(id);
    if (what.empty()) what = WrongContributions(id, chunk, wanted);
    if (what.empty()) right_.insert(result);
    return what;
  }

  std::string WrongFinish(ExpressionId id) const {
    const Expression& found = run_.expressions[id];
    if (IsScan(memory_.type)) {
      return found.has_finish ? "was finished, but scans have no final op" : "";
    }
    if (!found.has_finish) return "was never finished";
    if (found.kind != ExpressionKind::kFinish) {
      return "was reduced after it was finished";
    }
    const Expression& operand =
        run_.expressions[run_.expressions.operands(id)[0]];
    return operand.has_finish ? "was finished more than once" : "";
  }

  // Wants the contributions of the first `num_wanted` ranks.
  std::string WrongContributions(ExpressionId id, int chunk,
                                 int num_wanted) const {
    const size_t size = memory_.num_ranks;
    const auto wanted = static_cast<size_t>(num_wanted);
    std::vector<bool> seen(size);
    int previous = -1;
    bool ascending = true;
    // The limit of size + 1 leaves is enough: one leaf too many must repeat
    // one.
    for (ExpressionId leaf : run_.expressions.Leaves(id, size + 1)) {
      const Expression& input = run_.expressions[leaf];
      if (input.chunk != chunk || seen[input.rank]) {
        return absl::StrCat("contains ", InputText(input.rank, input.chunk),
                            input.chunk == chunk ? " twice" : "");
      }
      seen[input.rank] = true;
      ascending = ascending && input.rank > previous;
      previous = input.rank;
    }
    for (size_t rank = 0; rank < size; ++rank) {
      if (seen[rank] == (rank < wanted)) continue;
      return absl::StrCat(seen[rank] ? "contains " : "lacks ",
                          InputText(static_cast<int>(rank), chunk));
    }
    if (in_rank_order_ && !ascending) return "was not reduced in rank order";
    return "";
  }

  const GroupMemory& memory_;
  const std::vector<int> source_of_;
  const bool in_rank_order_;
  const SymbolicRun& run_;
  absl::flat_hash_set<std::tuple<ExpressionId, int, int>> right_;
};

}  // namespace

absl::Status CheckOutputs(const GroupMemory& memory,
                          absl::Span<const int> permutation, bool in_rank_order,
                          const SymbolicRun& run) {
  return OutputChecker(memory, permutation, in_rank_order, run).Check();
}

}  // namespace tutti
