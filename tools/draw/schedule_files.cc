#include "tools/draw/schedule_files.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/substitute.h"
#include "tutti/schedule.h"

namespace tutti {
namespace {

// Stands for a transfer of no bytes: LogGOPSim takes one byte off each message,
// so a message of 0 bytes is impossible.
constexpr absl::string_view kNothing = "calc 0";

std::string Label(int step, int first) {
  return absl::StrCat("l", step - first + 1);
}

std::string Operation(const Step& step, int64_t bytes) {
  if (!IsTransfer(step) || bytes == 0) return std::string(kNothing);
  const bool sends = step.kind == StepKind::kSend;
  return absl::StrCat(sends ? "send " : "recv ", bytes, "b ",
                      sends ? "to " : "from ", step.peer, " tag ", step.tag);
}

// Appends the steps that `step` waits for; `first` is the first step of the
// rank.
void AppendNeeds(const GroupPlan& plan, int step, int first,
                 std::string* text) {
  const auto append = [&](int needed) {
    absl::StrAppend(text, Label(step, first), " requires ",
                    Label(needed, first), "\n");
  };
  if (step != plan.lane(plan.lane_of(step)).first_step) append(step - 1);
  if (plan.after(step) >= 0) append(plan.after(step));
}

// Leftmost column that the arrow touches.
int LeftOf(const Arrow& arrow) { return std::min(arrow.from, arrow.to); }
int RightOf(const Arrow& arrow) { return std::max(arrow.from, arrow.to); }

std::vector<Arrow> Join(const GroupPlan& plan, absl::Span<const int> depths) {
  std::map<std::tuple<int, int, int>, Arrow> arrows;
  for (int step = 0; step < plan.num_steps(); ++step) {
    if (plan.step(step).kind != StepKind::kSend) continue;
    const int from = plan.rank_of(step);
    const int to = plan.step(step).peer;
    Arrow& arrow = arrows[{depths[step], from, to}];
    arrow.depth = depths[step];
    arrow.from = from;
    arrow.to = to;
    arrow.sends.push_back(step);
  }
  std::vector<Arrow> result;
  for (auto& [key, arrow] : arrows) result.push_back(std::move(arrow));
  return result;
}

// First line that is free from `left` on; marks it as taken up to `right`. If
// all arrows go from left to right, this needs the fewest lines.
int TakeLine(int left, int right, std::vector<int>* taken) {
  const auto line = std::find_if(taken->begin(), taken->end(),
                                 [left](int end) { return end <= left; });
  const int index = static_cast<int>(line - taken->begin());
  if (line == taken->end()) taken->push_back(0);
  (*taken)[index] = right;
  return index;
}

// Pixels, unless a viewer scales the picture.
constexpr int kLeft = 70;     // Left of the first column.
constexpr int kRight = 40;    // Right of the last column.
constexpr int kColumn = 56;   // Between two columns.
constexpr int kTop = 100;     // Above the first band.
constexpr int kLine = 18;     // Between two lines of arrows.
constexpr int kDots = 14;     // Below the arrows of a band with dots.
constexpr int kPadding = 10;  // Around each band.
constexpr int kBottom = 20;
constexpr int kGap = 5;          // Between an arrow and its columns.
constexpr int kHead = 7;         // Length of an arrow's head.
constexpr int kCharacter = 7;    // Maximum width in a label.
constexpr int kTitleLetter = 9;  // Maximum width in the title.
constexpr int kMinWidth = 520;   // Width of the legend.

// Colours are visible on white and on black.
constexpr char kStyle[] = R"(<style>
text { font-family: sans-serif; font-size: 11px; fill: #7d7d7d; }
text.title { font-size: 15px; font-weight: bold; }
text.middle { text-anchor: middle; }
text.end { text-anchor: end; }
line.rank { stroke: #7d7d7d; stroke-opacity: 0.35; }
line.band { stroke: #7d7d7d; stroke-opacity: 0.35; stroke-dasharray: 2 3; }
line.task { stroke: #7d7d7d; stroke-width: 2; }
g.near { stroke: #2b83d6; fill: #2b83d6; }
g.far { stroke: #d2691e; fill: #d2691e; }
g.near text, g.far text { stroke: none; }
g.near text { fill: #2b83d6; }
g.far text { fill: #d2691e; }
circle { stroke: #7d7d7d; stroke-width: 1.5; fill: none; }
circle.reduce { fill: #7d7d7d; }
</style>
)";

constexpr char kLegend[] =
    "time goes down; arrow: chunks sent, orange between tasks; dot: reduces; "
    "ring: copies";

std::string Escaped(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

int ColumnOf(int rank) { return kLeft + rank * kColumn; }

// Middle of a label: the middle of its arrow, or the nearest middle between two
// columns if the label fits there.
int MiddleOf(const Arrow& arrow, size_t label_size) {
  const int middle = (ColumnOf(arrow.from) + ColumnOf(arrow.to)) / 2;
  const bool on_column = (arrow.to - arrow.from) % 2 == 0;
  const int width = static_cast<int>(label_size) * kCharacter;
  return on_column && width < kColumn ? middle + kColumn / 2 : middle;
}

// Reductions and copies of one rank at one depth.
struct Work {
  bool reduces = false;
  std::vector<int> steps;
};

class Painter {
 public:
  explicit Painter(const SchedulePicture& picture)
      : picture_(picture), arrows_(ArrowsOf(picture.plan, picture.depths)) {
    CollectWork();
    PlaceBands();
  }

  std::string Paint() const {
    std::string text = absl::StrCat(Head(), Tasks(), Ranks(), Bands());
    for (const Arrow& arrow : arrows_) absl::StrAppend(&text, Draw(arrow));
    for (const auto& [place, work] : work_) {
      absl::StrAppend(&text, Draw(place.first, place.second, work));
    }
    return absl::StrCat(text, Note(), "</svg>\n");
  }

 private:
  struct Band {
    int num_lines = 0;
    bool has_dots = false;
    int top = 0;
    int height() const {
      return num_lines * kLine + (has_dots ? kDots : 0) + kPadding;
    }
  };

  void CollectWork() {
    const GroupPlan& plan = picture_.plan;
    for (int step = 0; step < plan.num_steps(); ++step) {
      const StepKind kind = plan.step(step).kind;
      if (IsTransfer(plan.step(step)) || kind == StepKind::kWait) continue;
      Work& work = work_[{picture_.depths[step], plan.rank_of(step)}];
      work.reduces |= kind == StepKind::kReduce;
      work.steps.push_back(step);
    }
  }

  void PlaceBands() {
    int max_depth = 0;
    for (int depth : picture_.depths) max_depth = std::max(max_depth, depth);
    bands_.resize(max_depth + 1);
    for (const Arrow& arrow : arrows_) {
      Band& band = bands_[arrow.depth];
      band.num_lines = std::max(band.num_lines, arrow.line + 1);
    }
    for (const auto& [place, work] : work_) bands_[place.first].has_dots = true;
    int top = kTop;
    for (Band& band : bands_) {
      band.top = top;
      top += band.height();
    }
  }

  // Whether the depth has no steps, which only depth 0 can be.
  bool IsEmpty(int depth) const {
    return bands_[depth].num_lines == 0 && !bands_[depth].has_dots;
  }

  int bottom() const { return bands_.back().top + bands_.back().height(); }

  int width() const {
    const int title = static_cast<int>(picture_.title.size()) * kTitleLetter;
    const int note = static_cast<int>(picture_.note.size()) * kCharacter;
    return std::max({ColumnOf(picture_.layout.size() - 1) + kRight,
                     std::max(title, note) + 2 * kPadding, kMinWidth});
  }

  std::string Head() const {
    const std::string title = Escaped(picture_.title);
    return absl::StrCat(
        absl::Substitute(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
            "width=\"$0\" height=\"$1\" viewBox=\"0 0 $0 $1\">\n"
            "<title>$2</title>\n",
            width(), bottom() + kBottom, title),
        kStyle,
        absl::Substitute("<text class=\"title\" x=\"$0\" y=\"24\">$1</text>\n"
                         "<text x=\"$0\" y=\"42\">$2</text>\n",
                         kPadding, title, kLegend));
  }

  std::string Note() const {
    if (picture_.note.empty()) return "";
    return absl::Substitute("<text x=\"$0\" y=\"$1\">$2</text>\n", kPadding,
                            bottom() + kBottom - 6, Escaped(picture_.note));
  }

  std::string Tasks() const {
    const auto& tasks = picture_.layout.tasks();
    if (tasks.size() == 1) return "";
    std::string text;
    for (size_t task = 0; task < tasks.size(); ++task) {
      const int left = ColumnOf(tasks[task].front());
      const int right = ColumnOf(tasks[task].back());
      absl::StrAppend(
          &text,
          absl::Substitute("<text class=\"middle\" x=\"$0\" y=\"64\">task $1"
                           "</text>\n<line class=\"task\" x1=\"$2\" y1=\"70\" "
                           "x2=\"$3\" y2=\"70\"/>\n",
                           (left + right) / 2, task, left - 14, right + 14));
    }
    return text;
  }

  std::string Ranks() const {
    std::string text = absl::Substitute(
        "<text class=\"end\" x=\"$0\" y=\"86\">rank</text>\n", kLeft - 30);
    for (int rank = 0; rank < picture_.layout.size(); ++rank) {
      absl::StrAppend(&text,
                      absl::Substitute(
                          "<text class=\"middle\" x=\"$0\" y=\"86\">$1</text>\n"
                          "<line class=\"rank\" x1=\"$0\" y1=\"$2\" x2=\"$0\" "
                          "y2=\"$3\"/>\n",
                          ColumnOf(rank), rank, kTop - kPadding, bottom()));
    }
    return text;
  }

  std::string Bands() const {
    std::string text;
    for (size_t depth = 0; depth < bands_.size(); ++depth) {
      if (IsEmpty(static_cast<int>(depth))) continue;
      const Band& band = bands_[depth];
      absl::StrAppend(
          &text, absl::Substitute(
                     "<line class=\"band\" x1=\"$0\" y1=\"$1\" x2=\"$2\" "
                     "y2=\"$1\"/>\n<text class=\"end\" x=\"$3\" y=\"$4\">$5"
                     "</text>\n",
                     kPadding, band.top, width() - kPadding, kLeft - 30,
                     band.top + band.height() / 2 + 4, depth));
    }
    return text;
  }

  std::string Draw(const Arrow& arrow) const {
    const GroupLayout& layout = picture_.layout;
    const int forward = arrow.from < arrow.to ? 1 : -1;
    const int begin = ColumnOf(arrow.from) + forward * kGap;
    const int tip = ColumnOf(arrow.to) - forward * kGap;
    const int y = bands_[arrow.depth].top + (arrow.line + 1) * kLine;
    const size_t room = (std::abs(tip - begin) - kHead) / kCharacter;
    std::string label = ChunksOf(picture_.plan, arrow);
    const int middle = MiddleOf(arrow, std::min(label.size(), room));
    if (label.size() > room) label = label.substr(0, room - 1) + "…";
    const bool near = layout.task_of(arrow.from) == layout.task_of(arrow.to);
    return absl::Substitute(
               "<g class=\"$0\">$1<line x1=\"$2\" y1=\"$3\" x2=\"$4\" "
               "y2=\"$3\"/>"
               "<polygon points=\"$5,$3 $4,$6 $4,$7\"/>"
               "<text class=\"middle\" x=\"$8\" y=\"$9\">",
               near ? "near" : "far", Tooltip(arrow.sends), begin, y,
               tip - forward * kHead, tip, y - 3, y + 3, middle, y - 4) +
           label + "</text></g>\n";
  }

  std::string Draw(int depth, int rank, const Work& work) const {
    const Band& band = bands_[depth];
    return absl::Substitute(
        "<circle class=\"$0\" cx=\"$1\" cy=\"$2\" r=\"4\">$3</circle>\n",
        work.reduces ? "reduce" : "copy", ColumnOf(rank),
        band.top + band.height() - kDots / 2, Tooltip(work.steps));
  }

  std::string Tooltip(const std::vector<int>& steps) const {
    std::string text;
    for (int step : steps) {
      absl::StrAppend(&text, text.empty() ? "" : "\n",
                      picture_.plan.Describe(step));
    }
    return absl::StrCat("<title>", Escaped(text), "</title>");
  }

  const SchedulePicture& picture_;
  const std::vector<Arrow> arrows_;
  std::map<std::pair<int, int>, Work> work_;  // By depth and rank.
  std::vector<Band> bands_;                   // By depth.
};

}  // namespace

std::string GoalTrace(const GroupPlan& plan, absl::Span<const int64_t> bytes) {
  std::string text = absl::StrCat("num_ranks ", plan.num_ranks(), "\n");
  int step = 0;
  for (int rank = 0; rank < plan.num_ranks(); ++rank) {
    absl::StrAppend(&text, "\nrank ", rank, " {\n");
    const int first = step;
    for (; step < plan.num_steps() && plan.rank_of(step) == rank; ++step) {
      absl::StrAppend(&text, Label(step, first), ": ",
                      Operation(plan.step(step), bytes[step]), "\n");
    }
    // LogGOPSim requires at least one operation.
    if (step == first) {
      absl::StrAppend(&text, Label(step, first), ": ", kNothing, "\n");
    }
    for (int later = first; later < step; ++later) {
      AppendNeeds(plan, later, first, &text);
    }
    absl::StrAppend(&text, "}\n");
  }
  return text;
}

std::vector<Arrow> ArrowsOf(const GroupPlan& plan,
                            absl::Span<const int> depths) {
  std::vector<Arrow> arrows = Join(plan, depths);
  const auto place = [](const Arrow& arrow) {
    return std::make_tuple(arrow.depth, LeftOf(arrow), RightOf(arrow),
                           arrow.from);
  };
  std::sort(arrows.begin(), arrows.end(), [&](const Arrow& a, const Arrow& b) {
    return place(a) < place(b);
  });
  int depth = 0;
  std::vector<int> taken;  // Rightmost taken column of each line.
  for (Arrow& arrow : arrows) {
    if (std::exchange(depth, arrow.depth) != arrow.depth) taken.clear();
    arrow.line = TakeLine(LeftOf(arrow), RightOf(arrow), &taken);
  }
  std::stable_sort(
      arrows.begin(), arrows.end(), [](const Arrow& a, const Arrow& b) {
        return std::tie(a.depth, a.line) < std::tie(b.depth, b.line);
      });
  return arrows;
}

std::string ChunksOf(const GroupPlan& plan, const Arrow& arrow) {
  std::set<int> chunks;
  for (int send : arrow.sends) {
    const Slot& sent = plan.step(send).left;
    for (int i = 0; i < sent.num_chunks; ++i) chunks.insert(sent.chunk + i);
  }
  std::vector<std::string> ranges;
  for (auto first = chunks.begin(); first != chunks.end();) {
    auto last = first;
    while (std::next(last) != chunks.end() && *std::next(last) == *last + 1) {
      ++last;
    }
    ranges.push_back(first == last ? absl::StrCat(*first)
                                   : absl::StrCat(*first, "-", *last));
    first = std::next(last);
  }
  return absl::StrJoin(ranges, ",");
}

std::string ScheduleSvg(const SchedulePicture& picture) {
  return Painter(picture).Paint();
}

}  // namespace tutti
