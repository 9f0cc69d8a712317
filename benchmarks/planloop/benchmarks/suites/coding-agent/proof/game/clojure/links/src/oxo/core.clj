(ns oxo.core
  "The whole game is in the address: `/?b=X-O------`, a mark or a dash for each square."
  (:require [clojure.string :as str])
  (:import (com.sun.net.httpserver HttpExchange HttpHandler HttpServer)
           (java.net InetSocketAddress)
           (java.util.concurrent Executors)))

(def lines [[0 1 2] [3 4 5] [6 7 8] [0 3 6] [1 4 7] [2 5 8] [0 4 8] [2 4 6]])

(defn winner [board]
  (some (fn [line]
          (let [marks (set (map #(nth board %) line))]
            (when (and (= 1 (count marks)) (not (marks \-))) (first marks))))
        lines))

(defn next-mark [board]
  (if (even? (count (remove #{\-} board))) \X \O))

(defn status [board]
  (if-let [won (winner board)]
    (str "Player " won " has won")
    (if (some #{\-} board) (str "Player " (next-mark board) " to move") "A draw!")))

(defn square [board at]
  (let [mark (nth board at)]
    (cond
      (not= mark \-) (str "<span class=\"square\">" mark "</span>")
      (winner board) "<span class=\"square\"></span>"
      :else (str "<a class=\"square\" aria-label=\"square " (inc at) "\" href=\"/?b="
                 (str/join (assoc (vec board) at (next-mark board))) "\"></a>"))))

(defn page [board]
  (str "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>OXO</title>"
       "<link rel=\"icon\" href=\"data:,\"><style>.board { width: 240px; display: flex; flex-wrap: wrap } "
       ".square { box-sizing: border-box; width: 80px; height: 80px; border: 1px solid;"
       " font: 40px/78px serif; text-align: center }</style></head>"
       "<body><h1>OXO</h1><h2>" (status board) "</h2><div class=\"board\">"
       (str/join (map #(square board %) (range 9)))
       "</div><p><a href=\"/\">Start a new game</a></p></body></html>"))

(defn handle [^HttpExchange exchange]
  (let [asked (second (re-find #"^b=([XO-]{9})$" (or (.getQuery (.getRequestURI exchange)) "")))
        body (.getBytes ^String (page (or asked "---------")) "UTF-8")]
    (.set (.getResponseHeaders exchange) "Content-Type" "text/html; charset=utf-8")
    (.sendResponseHeaders exchange 200 (alength body))
    (with-open [out (.getResponseBody exchange)] (.write out body))))

(defn -main [& _]
  (doto (HttpServer/create (InetSocketAddress. (parse-long (System/getenv "PORT"))) 0)
    (.createContext "/" (reify HttpHandler (handle [_ exchange] (handle exchange))))
    (.setExecutor (Executors/newCachedThreadPool))
    (.start)))
