(ns server
  "The whole game is in the address: `/?b=X-O------`, a mark or a dash for each square."
  (:require ["http" :as http]
            [clojure.string :as str]))

(def lines [[0 1 2] [3 4 5] [6 7 8] [0 3 6] [1 4 7] [2 5 8] [0 4 8] [2 4 6]])

(defn winner [board]
  (some (fn [line] (#{#{"X"} #{"O"}} (set (map #(subs board % (inc %)) line)))) lines))

(defn next-mark [board]
  (if (even? (count (re-seq #"[XO]" board))) "X" "O"))

(defn status [board]
  (let [won (winner board)]
    (cond
      won (str "Player " (first won) " has won")
      (str/includes? board "-") (str "Player " (next-mark board) " to move")
      :else "A draw!")))

(defn square [board at]
  (let [mark (subs board at (inc at))]
    (cond
      (not= mark "-") (str "<span class=\"square\">" mark "</span>")
      (winner board) "<span class=\"square\"></span>"
      :else (str "<a class=\"square\" aria-label=\"square " (inc at) "\" href=\"/?b="
                 (subs board 0 at) (next-mark board) (subs board (inc at)) "\"></a>"))))

(defn page [board]
  (str "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>OXO</title>"
       "<link rel=\"icon\" href=\"data:,\"><style>.board { width: 240px; display: flex; flex-wrap: wrap } "
       ".square { box-sizing: border-box; width: 80px; height: 80px; border: 1px solid;"
       " font: 40px/78px serif; text-align: center }</style></head>"
       "<body><h1>OXO</h1><h2>" (status board) "</h2><div class=\"board\">"
       (str/join (map #(square board %) (range 9)))
       "</div><p><a href=\"/\">Start a new game</a></p></body></html>"))

(defn handle [request response]
  (let [asked (second (re-find #"^/\?b=([XO-]{9})$" (.-url request)))]
    (.setHeader response "content-type" "text/html; charset=utf-8")
    (.end response (page (or asked "---------")))))

(.listen (http/createServer handle) (js/Number js/process.env.PORT))
