(ns server
  "One board for everybody, kept here: whoever opens the page sees the game as it stands."
  (:require ["http" :as http]
            ["stream/consumers" :as consumers]
            [oxo]
            [promesa.core :as p]))

(def board (atom oxo/empty-board))

(defn change! [request response]
  (p/let [body (consumers/text request)]
    (if (= (.-url request) "/new")
      (reset! board oxo/empty-board)
      (swap! board oxo/play (js/Number (.get (js/URLSearchParams. body) "at"))))
    (.end (.writeHead response 303 #js {"location" "/"}))))

(defn handle [request response]
  (if (= (.-method request) "POST")
    (change! request response)
    (-> response
        (.writeHead 200 #js {"content-type" "text/html; charset=utf-8" "cache-control" "no-store"})
        (.end (oxo/page @board)))))

(.listen (http/createServer handle) (js/Number js/process.env.PORT))
