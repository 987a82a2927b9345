// SPDX-License-Identifier: Apache-2.0
// YOLO networks on OpenCV's DNN module: darknet pairs and ONNX files.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

#include <opencv2/dnn.hpp>
#include <opencv2/imgproc.hpp>

#include "detector_backends.hpp"
#include "onnx_input.hpp"

namespace comp::detectors {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kCocoClasses = 80;
constexpr int kMultiple = 32;  // YOLO networks halve their input five times

void require_file(const std::string& path, const char* what) {
    std::error_code trouble;
    const fs::file_status status = fs::status(path, trouble);
    if (!fs::exists(status)) {
        throw VisionError(path + ": " + what + " not found (looked from " +
                          fs::current_path(trouble).string() + ")");
    }
    if (!fs::is_regular_file(status) || !std::ifstream(path)) {
        throw VisionError(path + ": " + what + " is not a readable file; check its permissions");
    }
}

// Returns OpenCV's message without its source location, which does not help users.
std::string reason(const cv::Exception& e) { return e.err.empty() ? e.what() : e.err; }

VehicleClass class_by_name(std::string name) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (name == "car") return VehicleClass::car;
    if (name == "motorbike" || name == "motorcycle") return VehicleClass::motorbike;
    if (name == "bus") return VehicleClass::bus;
    if (name == "truck") return VehicleClass::truck;
    return VehicleClass::unknown;
}

// Returns the vehicle class of each class index of the model. Detections of unknown classes are
// dropped.
std::vector<VehicleClass> load_classes(const std::string& names_path) {
    std::vector<VehicleClass> classes;
    if (names_path.empty()) {
        classes.assign(kCocoClasses, VehicleClass::unknown);
        classes[2] = VehicleClass::car;
        classes[3] = VehicleClass::motorbike;
        classes[5] = VehicleClass::bus;
        classes[7] = VehicleClass::truck;
        return classes;
    }
    require_file(names_path, "class names file");
    std::ifstream file(names_path);
    constexpr std::size_t kMaxClasses = 10'000;
    for (std::string line; classes.size() < kMaxClasses && std::getline(file, line);) {
        constexpr std::string_view kMark =
            "\xef\xbb\xbf";  // byte order mark that some editors write
        if (classes.empty() && line.starts_with(kMark)) {
            line.erase(0, kMark.size());
        }
        constexpr std::string_view kBlanks = " \t\r\v\f";
        const auto begin = line.find_first_not_of(kBlanks);
        if (begin != std::string::npos) {
            classes.push_back(
                class_by_name(line.substr(begin, line.find_last_not_of(kBlanks) - begin + 1)));
        }
    }
    if (std::all_of(classes.begin(), classes.end(),
                    [](VehicleClass c) { return c == VehicleClass::unknown; })) {
        throw VisionError(
            names_path +
            ": names none of car, motorbike, bus and truck; one class name per line is expected");
    }
    return classes;
}

// Common part of the darknet and the ONNX detector: the region, the input, the classes.
class NetworkDetector : public VehicleDetector {
public:
    [[nodiscard]] bool is_classical() const override { return false; }
    [[nodiscard]] std::string name() const override {
        return kind_ + " " + fs::path(model_).filename().string() + " " +
               std::to_string(input_.width) + "x" + std::to_string(input_.height);
    }

protected:
    NetworkDetector(const DetectorOptions& options, std::string kind, std::string model)
        : VehicleDetector(options),
          classes_(load_classes(options.names_path)),
          kind_(std::move(kind)),
          model_(std::move(model)) {}

    // Runs the network once on a blank image, so that an unusable model is refused before the first
    // frame.
    void rehearse() {
        std::vector<Detection> nothing;
        try {
            propose(cv::Mat::zeros(540, 960, CV_8UC3), nothing);
        } catch (const cv::Exception& e) {
            throw VisionError(model_ + ": the network does not run on a " +
                              std::to_string(input_.width) + "x" + std::to_string(input_.height) +
                              " input" + (stated_.empty() ? "" : ", which it states") + ": " +
                              reason(e) + "; " + remedy());
        }
    }

    [[nodiscard]] std::string remedy() const {
        return stated_.empty()
                   ? "export the model again with a fixed size of its input"
                   : "export the model again for OpenCV: opset 12, without built-in suppression";
    }

    void check_class_count(std::size_t model_classes) const {
        if (model_classes != classes_.size()) {
            throw VisionError(model_ + ": has " + std::to_string(model_classes) + " classes, " +
                              (options_.names_path.empty() ? "COCO" : options_.names_path) +
                              " has " + std::to_string(classes_.size()) +
                              "; give the names file that belongs to the model");
        }
    }

    [[nodiscard]] cv::Rect region_in(const cv::Mat& image) const {
        const cv::Rect2f& r = options_.region;
        const cv::Rect pixels(
            static_cast<int>(r.x * static_cast<float>(image.cols)),
            static_cast<int>(r.y * static_cast<float>(image.rows)),
            static_cast<int>(std::lround(r.width * static_cast<float>(image.cols))),
            static_cast<int>(std::lround(r.height * static_cast<float>(image.rows))));
        return pixels & cv::Rect(0, 0, image.cols, image.rows);
    }

    // Returns the best vehicle class and its score.
    [[nodiscard]] std::pair<VehicleClass, float> best_vehicle(const float* scores,
                                                              std::size_t stride) const {
        std::pair<VehicleClass, float> best{VehicleClass::unknown, 0.0F};
        for (std::size_t c = 0; c < classes_.size(); ++c) {
            if (classes_[c] == VehicleClass::unknown) {
                continue;
            }
            const float score = scores[c * stride];
            check_score(score);
            if (score > best.second) {
                best = {classes_[c], score};
            }
        }
        return best;
    }

    // A model in half precision may round a score to slightly more than 1.
    void check_score(float score) const {
        constexpr float kRounding = 0.01F;
        if (!(score >= -kRounding && score <= 1.0F + kRounding)) {
            throw VisionError(model_ + ": a score of " + std::to_string(score) +
                              " is not between 0 and 1; export the model with the sigmoid of its "
                              "last layer, and give the names file that belongs to it");
        }
    }

    static bool sane(const cv::Rect2f& box) {
        return std::isfinite(box.x) && std::isfinite(box.y) && std::isfinite(box.width) &&
               std::isfinite(box.height) && box.width > 0.0F && box.height > 0.0F;
    }

    cv::dnn::Net net_;
    cv::Size input_;
    cv::Size stated_;  // input size stated by the model file; empty: none
    std::vector<VehicleClass> classes_;
    std::string kind_;
    std::string model_;
    std::vector<std::string> output_names_;
    std::vector<cv::Mat> outputs_;
    cv::Mat blob_;
};

// ---- darknet ----

struct DarknetPair {
    std::string cfg;
    std::string weights;
};

DarknetPair find_pair(const DetectorOptions& options) {
    const fs::path model(options.model_path);
    DarknetPair pair;
    if (model.extension() == ".weights") {
        if (!options.weights_path.empty()) {
            throw VisionError(options.model_path +
                              ": model_path and weights_path both name weights; model_path is the "
                              ".cfg file then");
        }
        pair = {fs::path(model).replace_extension(".cfg").string(), options.model_path};
    } else {
        pair = {options.model_path, options.weights_path.empty()
                                        ? fs::path(model).replace_extension(".weights").string()
                                        : options.weights_path};
    }
    require_file(pair.cfg, "darknet network description (.cfg)");
    require_file(pair.weights, "darknet weights");
    return pair;
}

// OpenCV reads the number of weights that the .cfg needs, and ignores that the file is shorter or
// longer. A wrong pair would load and give wrong results, so the sizes are compared.
void check_pair(cv::dnn::Net& net, const DarknetPair& pair) {
    std::uintmax_t parameters = 0;
    for (const std::string& layer_name : net.getLayerNames()) {
        const cv::Ptr<cv::dnn::Layer> layer = net.getLayer(net.getLayerId(layer_name));
        if (layer->type == "Convolution" || layer->type == "BatchNorm" ||
            layer->type == "InnerProduct") {
            for (const cv::Mat& blob : layer->blobs) {
                parameters += blob.total();
            }
        }
    }
    std::array<std::int32_t, 2> version{};
    std::ifstream file(pair.weights, std::ios::binary);
    file.read(reinterpret_cast<char*>(version.data()), sizeof version);
    // Version 0.2 widened the "images seen" count from four bytes to eight.
    const bool wide = file.good() && std::int64_t{version[0]} * 10 + version[1] >= 2;
    const std::uintmax_t expected = (wide ? 20 : 16) + parameters * sizeof(float);
    const std::uintmax_t actual = fs::file_size(pair.weights);
    if (expected != actual) {
        throw VisionError(pair.weights + ": has " + std::to_string(actual) + " bytes, " + pair.cfg +
                          " needs " + std::to_string(expected) +
                          "; the two do not belong together, or the download was cut off");
    }
}

struct DarknetSize {
    int width = 0;
    int height = 0;
};

DarknetSize read_cfg_size(const std::string& path) {
    DarknetSize size;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        line.erase(std::remove_if(line.begin(), line.end(),
                                  [](unsigned char c) { return std::isspace(c) != 0; }),
                   line.end());
        try {
            if (line.starts_with("width=") && size.width == 0) {
                size.width = std::stoi(line.substr(6));
            } else if (line.starts_with("height=") && size.height == 0) {
                size.height = std::stoi(line.substr(7));
            }
        } catch (const std::exception&) {
            break;  // reported below
        }
    }
    if (size.width < kMultiple || size.height < kMultiple || size.width > 4096 ||
        size.height > 4096) {
        throw VisionError(path +
                          ": says no input width and height between 32 and 4096; it is not a "
                          "darknet network description");
    }
    return size;
}

int round_to_multiple(double v) {
    return std::max(1, static_cast<int>(std::lround(v / kMultiple))) * kMultiple;
}

std::string darknet_remedy(const std::string& said) {
    if (said.find("Unsupported") != std::string::npos) {
        return "OpenCV " CV_VERSION " does not run this layer: use another network";
    }
    return "check that both are the files of one darknet model";
}

class DarknetDetector final : public NetworkDetector {
public:
    DarknetDetector(const DetectorOptions& options, const DarknetPair& pair)
        : NetworkDetector(options, "YOLO darknet", pair.cfg) {
        const DarknetSize own = read_cfg_size(pair.cfg);
        try {
            net_ = cv::dnn::readNetFromDarknet(pair.cfg, pair.weights);
        } catch (const cv::Exception& e) {
            throw VisionError(pair.cfg + ": cannot be loaded with " + pair.weights + ": " +
                              reason(e) + "; " + darknet_remedy(reason(e)));
        }
        check_pair(net_, pair);
        net_.setPreferableBackend(cv::dnn::DNN_BACKEND_OPENCV);
        output_names_ = net_.getUnconnectedOutLayersNames();
        input_ = options.input_size;
        if (input_.empty()) {
            // Forward cameras deliver 16:9. The aspect ratio may be off by a few per cent.
            const double aspect =
                16.0 / 9.0 * static_cast<double>(options.region.width / options.region.height);
            const double budget = static_cast<double>(own.width) * own.height;
            input_.height = round_to_multiple(std::sqrt(budget / aspect));
            input_.width = round_to_multiple(budget / input_.height);
        }
        rehearse();
    }

protected:
    // Reads rows of cx cy w h objectness scores... Coordinates are fractions of the input, and the
    // scores are already multiplied by the objectness.
    void propose(const cv::Mat& bgr, std::vector<Detection>& out) override {
        const cv::Rect region = region_in(bgr);
        cv::dnn::blobFromImage(bgr(region), blob_, 1.0 / 255.0, input_, cv::Scalar(), true, false);
        net_.setInput(blob_);
        net_.forward(outputs_, output_names_);
        for (const cv::Mat& rows : outputs_) {
            if (rows.dims != 2 || rows.type() != CV_32F || rows.cols < 6) {
                throw VisionError(model_ +
                                  ": its last layers are not [yolo] or [region] layers; only those "
                                  "networks are supported");
            }
            check_class_count(static_cast<std::size_t>(rows.cols) - 5);
            for (int i = 0; i < rows.rows; ++i) {
                const auto* row = rows.ptr<float>(i);
                const auto [kind, score] = best_vehicle(row + 5, 1);
                if (!(score >= options_.min_confidence)) {
                    continue;
                }
                const auto width = static_cast<float>(region.width);
                const auto height = static_cast<float>(region.height);
                const cv::Rect2f box(static_cast<float>(region.x) + (row[0] - row[2] / 2) * width,
                                     static_cast<float>(region.y) + (row[1] - row[3] / 2) * height,
                                     row[2] * width, row[3] * height);
                if (sane(box)) {
                    out.push_back({box, score, kind});
                }
            }
        }
    }
};

// ---- ONNX ----

// Returns a remedy for a file that OpenCV does not load, by its content and by OpenCV's message.
std::string onnx_remedy(const std::string& path, const std::string& said) {
    std::string begin(40, '\0');
    std::ifstream(path, std::ios::binary).read(begin.data(), 40);
    if (begin.starts_with("version https://git-lfs")) {
        return "it is the pointer of Git LFS to the model: run `git lfs pull`";
    }
    if (said.find("FLOAT16") != std::string::npos) {
        return std::string("its weights have half precision, which OpenCV " CV_VERSION
                           " does not read: export the model in single precision (half=False)");
    }
    return "check that the download is whole, or export the model for OpenCV: single precision, "
           "opset 12, without built-in suppression";
}

class OnnxDetector final : public NetworkDetector {
public:
    explicit OnnxDetector(const DetectorOptions& options)
        : NetworkDetector(options, "YOLO ONNX", options.model_path) {
        require_file(model_, "ONNX model");
        if (!options.weights_path.empty()) {
            throw VisionError(model_ +
                              ": an ONNX model holds its own weights; leave weights_path (" +
                              options.weights_path + ") empty");
        }
        try {
            net_ = cv::dnn::readNetFromONNX(model_);
        } catch (const cv::Exception& e) {
            throw VisionError(model_ + ": cannot be loaded as an ONNX model: " + reason(e) + "; " +
                              onnx_remedy(model_, reason(e)));
        }
        if (net_.empty()) {
            throw VisionError(model_ + ": the ONNX model is empty");
        }
        net_.setPreferableBackend(cv::dnn::DNN_BACKEND_OPENCV);
        output_names_ = net_.getUnconnectedOutLayersNames();
        stated_ = onnx_input_size(model_);
        if (!stated_.empty() && !options.input_size.empty() && stated_ != options.input_size) {
            throw VisionError(model_ + ": is made for an input of " +
                              std::to_string(stated_.width) + "x" + std::to_string(stated_.height) +
                              "; leave input_size (" + std::to_string(options.input_size.width) +
                              "x" + std::to_string(options.input_size.height) + ") empty");
        }
        input_ = !stated_.empty()             ? stated_
                 : options.input_size.empty() ? cv::Size(640, 640)
                                              : options.input_size;
        rehearse();
    }

protected:
    void propose(const cv::Mat& bgr, std::vector<Detection>& out) override {
        // Letterbox, as in the training of these networks: the aspect ratio is kept, and the rest
        // of the input is grey.
        const cv::Rect region = region_in(bgr);
        const double scale = std::min(static_cast<double>(input_.width) / region.width,
                                      static_cast<double>(input_.height) / region.height);
        const cv::Size scaled(
            std::clamp(static_cast<int>(std::lround(region.width * scale)), 1, input_.width),
            std::clamp(static_cast<int>(std::lround(region.height * scale)), 1, input_.height));
        const cv::Point at((input_.width - scaled.width) / 2, (input_.height - scaled.height) / 2);
        canvas_.create(input_, CV_8UC3);
        canvas_.setTo(cv::Scalar::all(114));
        cv::Mat inner = canvas_(cv::Rect(at, scaled));
        cv::resize(bgr(region), inner, scaled, 0, 0, cv::INTER_LINEAR);
        cv::dnn::blobFromImage(canvas_, blob_, 1.0 / 255.0, input_, cv::Scalar(), true, false);
        net_.setInput(blob_);
        net_.forward(outputs_, output_names_);

        const Layout layout = layout_of();
        const cv::Mat& result = outputs_[layout.output];
        const auto* data = result.ptr<float>();
        const auto factor = static_cast<float>(1.0 / scale);
        for (std::size_t i = 0; i < layout.boxes; ++i) {
            const float* box = data + i * layout.box_stride;
            const auto field = [&](std::size_t index) { return box[index * layout.field_stride]; };
            std::pair<VehicleClass, float> best;
            if (layout.kind == Layout::suppressed) {
                best = {kind_of(field(5)), field(4)};
                check_score(best.second);
            } else {
                const bool v5 = layout.kind == Layout::v5;
                best = best_vehicle(box + (v5 ? 5 : 4) * layout.field_stride, layout.field_stride);
                if (v5) {
                    check_score(field(4));
                    best.second *= field(4);
                }
            }
            if (best.first == VehicleClass::unknown || !(best.second >= options_.min_confidence)) {
                continue;
            }
            // The values are corners, or centre and size.
            const bool corners = layout.kind == Layout::suppressed;
            const float width = (corners ? field(2) - field(0) : field(2)) * factor;
            const float height = (corners ? field(3) - field(1) : field(3)) * factor;
            const float left =
                (field(0) - static_cast<float>(at.x)) * factor - (corners ? 0.0F : width / 2);
            const float top =
                (field(1) - static_cast<float>(at.y)) * factor - (corners ? 0.0F : height / 2);
            const cv::Rect2f found(static_cast<float>(region.x) + left,
                                   static_cast<float>(region.y) + top, width, height);
            if (sane(found)) {
                out.push_back({found, std::min(best.second, 1.0F), best.first});
            }
        }
    }

private:
    struct Layout {
        enum Kind { v5, v8, suppressed } kind;
        std::size_t output;
        std::size_t boxes;
        std::size_t box_stride;
        std::size_t field_stride;
    };

    [[nodiscard]] VehicleClass kind_of(float number) const {
        return number >= 0.0F && number < static_cast<float>(classes_.size())
                   ? classes_[static_cast<std::size_t>(number)]
                   : VehicleClass::unknown;
    }

    // Determines the layout of the output: [boxes, fields] or [fields, boxes]. The number of fields
    // follows from the number of class names, so it shows which of the two dimensions it is.
    [[nodiscard]] Layout layout_of() const {
        std::size_t output = outputs_.size();
        std::size_t masks = 0;  // mask coefficients per box; a second output gives their number
        std::string shapes;
        for (std::size_t i = 0; i < outputs_.size(); ++i) {
            const cv::Mat& m = outputs_[i];
            shapes += shapes.empty() ? "[" : ", [";
            for (int d = 0; d < m.dims; ++d) {
                shapes += (d > 0 ? ", " : "") + std::to_string(m.size[d]);
            }
            shapes += "]";
            if (m.dims == 3 && m.size[0] == 1 && m.type() == CV_32F && output == outputs_.size()) {
                output = i;
            } else if (m.dims == 4 && masks == 0) {
                masks = static_cast<std::size_t>(m.size[1]);
            } else {
                masks = SIZE_MAX;
            }
        }
        if (output == outputs_.size() || masks == SIZE_MAX) {
            throw VisionError(model_ + ": its output is " + shapes +
                              "; read are one tensor [1, boxes, 5 + classes] (YOLOv5), [1, 4 + "
                              "classes, boxes] (YOLOv8) or [1, boxes, 6] (with suppression), "
                              "and masks; export it with one of these");
        }
        const auto rows = static_cast<std::size_t>(outputs_[output].size[1]);
        const auto columns = static_cast<std::size_t>(outputs_[output].size[2]);
        const auto fields_are = [&](std::size_t count, std::size_t n) {
            return n == count || (masks > 0 && n == count + masks);
        };
        const std::size_t classes = classes_.size();
        constexpr std::size_t kMostSuppressed = 1000;
        constexpr std::size_t kSuppressedFields = 6;
        // A box without suppression has six numbers, too, if there is one class (YOLOv5) or two
        // (YOLOv8). Such a model gives three (YOLOv5) or one (YOLOv8) box for each cell of its
        // grids, whose cells are 8, 16 and 32 pixels wide.
        std::size_t cells = 0;
        for (const int stride : {8, 16, 32}) {
            cells += static_cast<std::size_t>(input_.width / stride) *
                     static_cast<std::size_t>(input_.height / stride);
        }
        if (fields_are(kSuppressedFields, columns) && rows <= kMostSuppressed && rows != cells &&
            rows != 3 * cells && (classes > 2 || rows > kSuppressedFields)) {
            return {Layout::suppressed, output, rows, columns, 1};
        }
        if (fields_are(classes + 5, columns)) return {Layout::v5, output, rows, columns, 1};
        if (fields_are(classes + 4, rows)) return {Layout::v8, output, columns, 1, columns};
        if (fields_are(classes + 4, columns)) return {Layout::v8, output, rows, columns, 1};
        if (fields_are(classes + 5, rows)) return {Layout::v5, output, columns, 1, columns};
        throw VisionError(model_ + ": its output is " + shapes + ", for " +
                          std::to_string(classes) + " classes [1, boxes, " +
                          std::to_string(classes + 5) + "] (YOLOv5), [1, " +
                          std::to_string(classes + 4) +
                          ", boxes] (YOLOv8) or [1, boxes, 6] (with suppression) was expected" +
                          (masks > 0 ? ", each with the " + std::to_string(masks) +
                                           " numbers of a mask or without them" +
                                           "; give the names file that belongs to the model, or "
                                           "export the model for detection, without masks"
                                     : "; give the names file that belongs to the model"));
    }

    cv::Mat canvas_;
};

}  // namespace

std::unique_ptr<VehicleDetector> make_darknet(const DetectorOptions& options) {
    return std::make_unique<DarknetDetector>(options, find_pair(options));
}

std::unique_ptr<VehicleDetector> make_onnx(const DetectorOptions& options) {
    return std::make_unique<OnnxDetector>(options);
}

}  // namespace comp::detectors
