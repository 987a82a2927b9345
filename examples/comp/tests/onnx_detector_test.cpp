// SPDX-License-Identifier: Apache-2.0
// Detection with ONNX files. The test encodes small networks itself (ONNX is a protobuf), so the
// real loader reads a real file. The network divides its input, 64x64 unless stated otherwise, into
// cells of 32x32. Each cell reports a 24x16 box at its centre, whose score is the mean brightness
// of the cell.
#include <fstream>
#include <string>
#include <vector>

#include "test_support.hpp"
#include "vehicle_detector.hpp"

namespace comp {
namespace {

using test::ScratchFolder;
using test::vision_error;

// ---- minimal encoder for protobuf and ONNX ----

std::string varint(std::uint64_t v) {
    std::string out;
    for (; v >= 0x80; v >>= 7) {
        out.push_back(static_cast<char>((v & 0x7f) | 0x80));
    }
    out.push_back(static_cast<char>(v));
    return out;
}
std::string number(int field, std::uint64_t v) {
    return varint(static_cast<std::uint64_t>(field) << 3) + varint(v);
}
std::string bytes(int field, const std::string& v) {
    return varint((static_cast<std::uint64_t>(field) << 3) | 2) + varint(v.size()) + v;
}

template <typename T>
std::string tensor(const std::string& name, const std::vector<std::int64_t>& dims,
                   const std::vector<T>& values, int onnx_type) {
    std::string out;
    for (const std::int64_t d : dims) {
        out += number(1, static_cast<std::uint64_t>(d));
    }
    out += number(2, static_cast<std::uint64_t>(onnx_type)) + bytes(8, name);
    return out + bytes(9, std::string(reinterpret_cast<const char*>(values.data()),
                                      values.size() * sizeof(T)));
}
std::string floats(const std::string& name, const std::vector<std::int64_t>& dims,
                   const std::vector<float>& v) {
    return tensor(name, dims, v, 1);
}
std::string longs(const std::string& name, const std::vector<std::int64_t>& v) {
    return tensor(name, {static_cast<std::int64_t>(v.size())}, v, 7);
}

std::string ints(const std::string& name, const std::vector<std::int64_t>& v) {
    std::string out = bytes(1, name);
    for (const std::int64_t i : v) {
        out += number(8, static_cast<std::uint64_t>(i));
    }
    return bytes(5, out + number(20, 7));
}
std::string node(const std::string& type, const std::vector<std::string>& in,
                 const std::string& out, const std::string& attributes = "") {
    std::string n;
    for (const std::string& i : in) {
        n += bytes(1, i);
    }
    return bytes(1, n + bytes(2, out) + bytes(3, out + "_node") + bytes(4, type) + attributes);
}
std::string value(int field, const std::string& name, const std::vector<std::int64_t>& dims) {
    std::string shape;
    for (const std::int64_t d : dims) {
        shape += bytes(1, number(1, static_cast<std::uint64_t>(d)));
    }
    return bytes(field, bytes(1, name) + bytes(2, bytes(1, number(1, 1) + bytes(2, shape))));
}
std::string model(const std::string& graph) {
    return number(1, 7) + bytes(8, number(2, 11)) + bytes(7, graph + bytes(2, "g"));
}

// ---- the two layouts ----

struct Cells {
    std::int64_t fields;      // per box
    int bright;               // field with the brightness of the cell
    std::vector<float> bias;  // per field
    bool corners = false;     // fields 2 and 3 are the second corner
    std::int64_t side = 64;   // of the input
    // Channels of a second output, as masks have; 0: none.
    std::int64_t masks = 0;
};

std::string cell_network(const Cells& cells, bool boxes_first) {
    const std::int64_t n = cells.fields;
    const std::int64_t across = cells.side / 32;
    const auto count = static_cast<std::size_t>(across * across);
    std::vector<float> weights(static_cast<std::size_t>(n) * 3 * 32 * 32, 0.0F);
    for (std::size_t i = 0; i < 3 * 32 * 32; ++i) {
        weights[static_cast<std::size_t>(cells.bright) * 3 * 32 * 32 + i] = 1.0F / (3 * 32 * 32);
    }
    std::vector<float> grid(static_cast<std::size_t>(n) * count, 0.0F);
    for (std::size_t cell = 0; cell < count; ++cell) {
        const std::size_t column = cell % static_cast<std::size_t>(across);
        const std::size_t row = cell / static_cast<std::size_t>(across);
        const float x = 32.0F * static_cast<float>(column);
        const float y = 32.0F * static_cast<float>(row);
        if (boxes_first) {
            grid[cell * static_cast<std::size_t>(n)] = x;
            grid[cell * static_cast<std::size_t>(n) + 1] = y;
            if (cells.corners) {
                grid[cell * static_cast<std::size_t>(n) + 2] = x;
                grid[cell * static_cast<std::size_t>(n) + 3] = y;
            }
        } else {
            grid[cell] = x;
            grid[count + cell] = y;
        }
    }
    std::string graph = node("Conv", {"images", "w", "b"}, "cells",
                             ints("kernel_shape", {32, 32}) + ints("strides", {32, 32}));
    graph += node("Reshape", {"cells", "shape"}, "flat");
    std::string last = "flat";
    if (boxes_first) {
        graph += node("Transpose", {"flat"}, "rows", ints("perm", {0, 2, 1}));
        last = "rows";
    }
    graph += node("Add", {last, "grid"}, "output0");
    const std::int64_t boxes = across * across;
    std::vector<float> bias = cells.bias;
    bias.resize(static_cast<std::size_t>(n), 0.0F);
    graph += bytes(5, floats("w", {n, 3, 32, 32}, weights)) + bytes(5, floats("b", {n}, bias)) +
             bytes(5, longs("shape", {1, n, boxes}));
    const std::vector<std::int64_t> out = boxes_first ? std::vector<std::int64_t>{1, boxes, n}
                                                      : std::vector<std::int64_t>{1, n, boxes};
    graph += bytes(5, floats("grid", out, grid));
    graph += value(11, "images", {1, 3, cells.side, cells.side}) + value(12, "output0", out);
    if (cells.masks > 0) {
        const std::vector<float> none(static_cast<std::size_t>(cells.masks) * 3 * 8 * 8, 0.0F);
        graph += node("Conv", {"images", "m"}, "output1",
                      ints("kernel_shape", {8, 8}) + ints("strides", {8, 8}));
        graph += bytes(5, floats("m", {cells.masks, 3, 8, 8}, none)) +
                 value(12, "output1", {1, cells.masks, cells.side / 8, cells.side / 8});
    }
    return model(graph);
}

// cx cy w h objectness person car; brightness is the objectness.
std::string yolo_v5() { return cell_network({7, 4, {16, 16, 24, 16, 0, 0.1F, 0.9F}}, true); }
// cx cy w h person car; brightness is the car's score.
std::string yolo_v8() { return cell_network({6, 5, {16, 16, 24, 16, 0.3F, 0}}, false); }

// As yolo_v8(), but with the fields last. And boxes of a network with built-in suppression:
// x1 y1 x2 y2 score class. Class 1 is the second name.
std::string yolo_v8_transposed() { return cell_network({6, 5, {16, 16, 24, 16, 0.3F, 0}}, true); }
std::string yolo_suppressed() { return cell_network({6, 4, {4, 8, 28, 24, 0, 1}, true}, true); }

class OnnxDetector : public ::testing::Test {
protected:
    OnnxDetector() {
        std::ofstream(scratch_.file("two.names")) << "person\ncar\n";
        options_.names_path = scratch_.file("two.names");
        options_.region = {0, 0, 1, 1};
        options_.input_size = {64, 64};
        options_.min_confidence = 0.6F;
    }
    void write(const std::string& content) {
        options_.model_path = scratch_.file("net.onnx");
        std::ofstream(options_.model_path, std::ios::binary | std::ios::trunc) << content;
    }
    std::string load_error() {
        return vision_error([&] { (void)make_vehicle_detector(options_); });
    }

    ScratchFolder scratch_;
    DetectorOptions options_;
};

void expect_box(const cv::Rect2f& box, const cv::Rect2f& wanted) {
    EXPECT_NEAR(box.x, wanted.x, 0.01F);
    EXPECT_NEAR(box.y, wanted.y, 0.01F);
    EXPECT_NEAR(box.width, wanted.width, 0.01F);
    EXPECT_NEAR(box.height, wanted.height, 0.01F);
}

TEST_F(OnnxDetector, ReadsBothLayouts) {
    for (const auto& [content, score] : {std::pair(yolo_v5(), 0.9F), std::pair(yolo_v8(), 1.0F)}) {
        write(content);
        const auto detector = make_vehicle_detector(options_);
        EXPECT_FALSE(detector->is_classical());
        cv::Mat frame = cv::Mat::zeros(64, 64, CV_8UC3);
        std::vector<Detection> found;
        ASSERT_TRUE(detector->detect(frame, found)) << detector->error();
        EXPECT_TRUE(found.empty()) << "a dark image has no detections";
        frame(cv::Rect(32, 32, 32, 32)).setTo(cv::Scalar::all(255));
        ASSERT_TRUE(detector->detect(frame, found)) << detector->error();
        ASSERT_EQ(found.size(), 1U);
        expect_box(found[0].box, {36, 40, 24, 16});
        EXPECT_NEAR(found[0].confidence, score, 0.01F);
        EXPECT_EQ(found[0].kind, VehicleClass::car);
    }
}

// Class names as exporters write them: with capitals, a byte order mark, DOS line ends and blanks.
TEST_F(OnnxDetector, ReadsOtherLayoutsAndNames) {
    options_.input_size = {};  // the models state 64x64
    struct Case {
        std::string content;
        std::string names;
    };
    for (const auto& [content, names] :
         {Case{yolo_v8_transposed(), "\xef\xbb\xbfPerson\r\nCar \t\r\n"},
          {yolo_suppressed(), "person\n\tCAR\ntram\n"},
          {yolo_v5(), "Person\n\nCar\n"}}) {
        std::ofstream(options_.names_path, std::ios::binary | std::ios::trunc) << names;
        write(content);
        const auto detector = make_vehicle_detector(options_);
        EXPECT_NE(detector->name().find("64x64"), std::string::npos) << detector->name();
        cv::Mat frame = cv::Mat::zeros(64, 64, CV_8UC3);
        frame(cv::Rect(32, 32, 32, 32)).setTo(cv::Scalar::all(255));
        std::vector<Detection> found;
        ASSERT_TRUE(detector->detect(frame, found)) << detector->error();
        ASSERT_EQ(found.size(), 1U) << names;
        expect_box(found[0].box, {36, 40, 24, 16});
        EXPECT_EQ(found[0].kind, VehicleClass::car);
    }
}

// Boxes [1, N, 6] as exporters write them, with the names of COCO: class 2 is the car.
TEST_F(OnnxDetector, ReadsSuppressedBoxesOfCoco) {
    options_.names_path.clear();
    options_.input_size = {};
    for (const std::int64_t side : {64, 320, 640}) {
        write(cell_network({6, 4, {4, 8, 28, 24, 0, 2}, true, side}, true));
        const auto detector = make_vehicle_detector(options_);
        const auto pixels = static_cast<int>(side);
        cv::Mat frame = cv::Mat::zeros(pixels, pixels, CV_8UC3);
        frame(cv::Rect(32, 32, 32, 32)).setTo(cv::Scalar::all(255));
        std::vector<Detection> found;
        ASSERT_TRUE(detector->detect(frame, found)) << detector->error();
        ASSERT_EQ(found.size(), 1U) << side;
        expect_box(found[0].box, {36, 40, 24, 16});
        EXPECT_EQ(found[0].kind, VehicleClass::car) << side;
    }
    // Class 0 is a person.
    write(cell_network({6, 4, {4, 8, 28, 24, 0, 0}, true}, true));
    std::vector<Detection> found;
    const auto detector = make_vehicle_detector(options_);
    ASSERT_TRUE(detector->detect(cv::Mat(64, 64, CV_8UC3, cv::Scalar::all(255)), found));
    EXPECT_TRUE(found.empty());
}

TEST_F(OnnxDetector, UsesTheInputSizeOfTheModel) {
    options_.input_size = {};
    for (const std::int64_t side : {320, 1280}) {
        write(cell_network({6, 5, {16, 16, 24, 16, 0.3F, 0}, false, side}, false));
        const auto detector = make_vehicle_detector(options_);
        const std::string size = std::to_string(side) + "x" + std::to_string(side);
        EXPECT_NE(detector->name().find(size), std::string::npos) << detector->name();
        // A quarter of the size: the detector scales it up, and the box down.
        const auto pixels = static_cast<int>(side) / 4;
        cv::Mat frame = cv::Mat::zeros(pixels, pixels, CV_8UC3);
        frame(cv::Rect(8, 8, 8, 8)).setTo(cv::Scalar::all(255));
        std::vector<Detection> found;
        ASSERT_TRUE(detector->detect(frame, found)) << detector->error();
        ASSERT_EQ(found.size(), 1U) << side;
        expect_box(found[0].box, {9, 10, 6, 4});
    }
}

// Networks for segmentation: mask coefficients follow the classes of a box, and a second output has
// four dimensions. Only the boxes are read.
TEST_F(OnnxDetector, ReadsBoxesThatHaveMasks) {
    options_.input_size = {};
    for (const auto& [network, boxes_first] :
         {std::pair(Cells{4 + 2 + 32, 5, {16, 16, 24, 16, 0.3F}, false, 64, 32}, false),
          {Cells{4 + 2 + 32, 5, {16, 16, 24, 16, 0.3F}, false, 64, 32}, true},
          {Cells{6 + 32, 4, {4, 8, 28, 24, 0, 1}, true, 320, 32}, true}}) {
        write(cell_network(network, boxes_first));
        const auto detector = make_vehicle_detector(options_);
        const auto pixels = static_cast<int>(network.side);
        cv::Mat frame = cv::Mat::zeros(pixels, pixels, CV_8UC3);
        frame(cv::Rect(32, 32, 32, 32)).setTo(cv::Scalar::all(255));
        std::vector<Detection> found;
        ASSERT_TRUE(detector->detect(frame, found)) << detector->error();
        ASSERT_EQ(found.size(), 1U) << network.fields;
        expect_box(found[0].box, {36, 40, 24, 16});
        EXPECT_EQ(found[0].kind, VehicleClass::car);
    }
}

// More values per box than classes and masks need. The names are correct, so the error must not
// name them as the cause.
TEST_F(OnnxDetector, MasksThatDoNotFitAreRefusedWithTheRemedy) {
    options_.input_size = {};
    write(cell_network({4 + 2 + 32, 5, {16, 16, 24, 16, 0.3F}, false, 64, 16}, false));
    const std::string said = load_error();
    EXPECT_NE(said.find("[1, 38, 4], [1, 16, 8, 8]"), std::string::npos) << said;
    EXPECT_NE(said.find("export the model for detection, without masks"), std::string::npos)
        << said;
}

// A network that OpenCV cannot load is refused with the remedy.
TEST_F(OnnxDetector, FilesThatOpenCvCannotLoadAreRefusedWithTheRemedy) {
    const std::vector<std::uint16_t> halves(6U * 3 * 32 * 32, 0);
    const std::string graph = node("Conv", {"images", "w"}, "output0",
                                   ints("kernel_shape", {32, 32}) + ints("strides", {32, 32})) +
                              bytes(5, tensor("w", {6, 3, 32, 32}, halves, 10)) +  // FLOAT16
                              value(11, "images", {1, 3, 64, 64}) +
                              value(12, "output0", {1, 6, 2, 2});
    for (const auto& [content, remedy] :
         {std::pair(model(graph), "export the model in single precision"),
          std::pair(std::string("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
                    "git lfs pull"),
          std::pair(yolo_v8().substr(0, 300), "check that the download is whole")}) {
        write(content);
        const auto text = load_error();
        EXPECT_NE(text.find(remedy), std::string::npos) << text;
    }
}

TEST_F(OnnxDetector, ScoresOutOfRangeAreErrors) {
    // Networks exported without the sigmoid have scores of up to 650. A network that has such a
    // score on a blank image is refused when it is loaded.
    const auto says = [](const std::string& text) {
        EXPECT_NE(text.find("is not between 0 and 1"), std::string::npos) << text;
    };
    write(cell_network({6, 5, {16, 16, 24, 16, 0.3F, 650}}, false));
    says(load_error());
    write(cell_network({6, 5, {16, 16, 24, 16, 0.3F, -8}}, false));
    says(load_error());
    write(cell_network({6, 5, {16, 16, 24, 16, 0.3F, 0.5F}}, false));
    const auto detector = make_vehicle_detector(options_);
    std::vector<Detection> found;
    EXPECT_FALSE(detector->detect(cv::Mat(64, 64, CV_8UC3, cv::Scalar::all(255)), found));
    says(detector->error());
    EXPECT_TRUE(found.empty());
}

TEST_F(OnnxDetector, UndoesLetterboxAndRegion) {
    write(yolo_v8());
    // The region is the right half, 256x128: scaled to 64x32 with 16 rows of padding above and
    // below.
    options_.region = {0.5F, 0, 0.5F, 1};
    const auto detector = make_vehicle_detector(options_);
    cv::Mat frame = cv::Mat::zeros(128, 512, CV_8UC3);
    frame(cv::Rect(256 + 128, 0, 128, 64))
        .setTo(cv::Scalar::all(255));  // upper right of the region: rows 16..31 of the input
    std::vector<Detection> found;
    ASSERT_TRUE(detector->detect(frame, found)) << detector->error();
    ASSERT_EQ(found.size(), 1U);  // half of the cell is bright, half is padding of 114: 0.72
    EXPECT_NEAR(found[0].confidence, 0.5 + 0.5 * 114 / 255.0, 0.02);
    // Input box 36..60 x 8..24 is frame 256 + 144..240 x -32..32, clipped at the top.
    expect_box(found[0].box, {400, 0, 96, 32});
}

TEST_F(OnnxDetector, ErrorsNamePlaceAndRemedy) {
    const auto holds = [](const std::string& text, const std::string& part) {
        return text.find(part) != std::string::npos;
    };
    options_.model_path = scratch_.file("none.onnx");
    EXPECT_TRUE(holds(load_error(), "none.onnx: ONNX model not found"));
    write("this is no protobuf");
    EXPECT_TRUE(holds(load_error(), "net.onnx: cannot be loaded"));
    write("");
    EXPECT_TRUE(holds(load_error(), "net.onnx"));
    write(yolo_v5());
    options_.weights_path = "net.weights";
    EXPECT_TRUE(holds(load_error(), "holds its own weights"));
    options_.weights_path.clear();
    options_.names_path.clear();
    EXPECT_TRUE(holds(load_error(), "for 80 classes")) << load_error();
    options_.names_path = scratch_.file("two.names");
    options_.input_size = {96, 64};
    EXPECT_TRUE(holds(load_error(), "made for an input of 64x64; leave input_size (96x64) empty"))
        << load_error();
    options_.input_size = {};
    write(cell_network({9, 5, {16, 16, 24, 16, 0.3F, 0, 0, 0, 0}}, false));
    EXPECT_TRUE(holds(load_error(), "[1, 9, 4], for 2 classes")) << load_error();
}

}  // namespace
}  // namespace comp
